"""The backend for models of Hugging Face transformers: text, or vision and language."""

from selfsurf.agents.quiet import quiet

quiet()
