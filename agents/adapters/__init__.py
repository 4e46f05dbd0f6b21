"""LoRA adapters on disk: which base model they belong to, and their two formats, PEFT's and MLX's.

Nothing here loads a model library when it is imported.
"""
