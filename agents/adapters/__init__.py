"""LoRA adapters on disk: their base model, the prompt that they were trained under, their formats (PEFT's, MLX's).

Nothing here loads a model library when it is imported.
"""
