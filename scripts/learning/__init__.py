"""`selfsurf bench learn`: what agents learn in several ways from the same episodes, and what they forget."""
