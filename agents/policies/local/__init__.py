"""What the backends that run a model in this process share: chat templates, prompt caches, constrained replies."""
