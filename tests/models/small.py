"""The smallest Llama that the suite runs and trains: random weights, the same every time, and a real tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def small_llama(tokenizer: Any, **changes: Any) -> Any:
    """Make a two-layer Llama; `changes` are of its configuration."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    usual = {
        "vocab_size": len(tokenizer), "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 2048, "bos_token_id": 1,
        "eos_token_id": 2, "pad_token_id": 2,
    }  # fmt: skip
    model = LlamaForCausalLM(LlamaConfig(**{**usual, **changes}))
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    return model


def save_small(folder: Path, tokenizer_folder: Path, **changes: Any) -> Path:
    """Save it as transformers saves any model."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    small_llama(tokenizer, **changes).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
