"""Random LoRA adapters whose effect is not zero, made and saved by PEFT."""

from __future__ import annotations

from pathlib import Path
from typing import Any

ALL_LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def save_random_adapter(base: Path, out: Path, *, vision: bool = False, dtype: str = "float32", **lora: Any) -> Path:
    """An adapter of the model in `base`, without identity."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    kind = AutoModelForImageTextToText if vision else AutoModelForCausalLM
    torch.manual_seed(1)
    settings = {"r": 4, "lora_alpha": 6, "target_modules": ALL_LINEAR, "lora_dropout": 0.1, **lora}
    config = LoraConfig(task_type="CAUSAL_LM", **settings)
    model: Any = get_peft_model(kind.from_pretrained(base), config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                parameter.data = parameter.normal_(0.0, 0.2).to(getattr(torch, dtype))
    model.save_pretrained(str(out))
    return out
