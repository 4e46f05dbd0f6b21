"""Text models of realistic size with random weights, which suffice for speed and memory and need no download."""

from __future__ import annotations

import shutil
from pathlib import Path

SIZES = {"tiny": (64, 128, 2, 4, 2), "1b": (2048, 8192, 16, 32, 8), "8b": (4096, 14336, 32, 32, 8)}
"""Hidden size, MLP size, layers, attention heads and key-value heads of Llama 3.2 1B, of 3.1 8B, and of one for tests.
"""


def random_model(size: str, folder: Path, tokenizer: str | Path) -> Path:
    """Save a model of a given size, unless it exists, and return its folder.

    Args:
        size: Name from `SIZES`.
        folder: Folder of the model.
        tokenizer: Folder of the model's tokenizer, which determines the vocabulary size.
    """
    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    if (folder / "config.json").exists():
        return folder
    hidden, inner, layers, heads, keys = SIZES[size]
    words = AutoTokenizer.from_pretrained(tokenizer)
    config = LlamaConfig(
        vocab_size=len(words), max_position_embeddings=8192, bos_token_id=words.bos_token_id,
        eos_token_id=words.eos_token_id, pad_token_id=words.eos_token_id, dtype="bfloat16", hidden_size=hidden,
        intermediate_size=inner, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=keys,
    )  # fmt: skip
    torch.manual_seed(0)
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        model = LlamaForCausalLM(config).to(torch.bfloat16)
    unfinished = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(unfinished, ignore_errors=True)
    words.save_pretrained(unfinished)
    model.save_pretrained(unfinished)
    shutil.rmtree(folder, ignore_errors=True)
    unfinished.rename(folder)
    return folder
