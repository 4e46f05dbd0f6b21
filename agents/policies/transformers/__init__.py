"""The backend for models of Hugging Face transformers, text or vision and language."""
