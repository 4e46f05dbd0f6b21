"""LoRA adapters on disk: base model, training prompt, and the formats of PEFT and MLX.

No model library is loaded when these modules are imported.
"""
