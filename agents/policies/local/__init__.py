"""Common parts of backends that sample token by token in this process: prompts, prompt caches, constrained replies."""
