"""The backend for TensorRT-LLM engines."""
