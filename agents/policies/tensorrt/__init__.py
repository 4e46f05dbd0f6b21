"""The backend for TensorRT-LLM engines."""

from selfsurf.agents.quiet import quiet

quiet()
