"""The backend for models in MLX, on Apple silicon and, slowly, on Linux."""

from selfsurf.agents.quiet import quiet

quiet()
