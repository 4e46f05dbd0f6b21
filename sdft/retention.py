"""How much of what a model could do before is still there: perplexity on a fixed text of general prose."""

from __future__ import annotations

import math
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agents.policies.transformers import TransformersPolicy

BLOCK = 512
"""Tokens of one block; blocks are scored independently."""


def general_text() -> str:
    """Return the text: fourteen passages of description, instruction, dialogue, letter and exposition.

    They were written for this purpose, so that no model has met them in training.
    """
    return resources.files("sdft").joinpath("data/general.txt").read_text(encoding="utf8")


def perplexity(policy: TransformersPolicy, text: str | None = None) -> dict[str, Any]:
    """Return the model's perplexity on a text.

    Args:
        policy: the model, with whatever adapter is in force.
        text: what to score; the general text by default.

    Returns:
        `perplexity` (exp of the mean negative log-likelihood per token, in nats) and `tokens`, the number scored.
    """
    import torch

    ids = policy.tokenizer.encode(general_text() if text is None else text, add_special_tokens=False)
    device = policy.model.get_input_embeddings().weight.device
    total, count = 0.0, 0
    with policy.reading():
        for start in range(0, len(ids) - 1, BLOCK):
            block = torch.tensor([ids[start : start + BLOCK + 1]], device=device)
            logits = policy.model(input_ids=block[:, :-1]).logits.float()
            losses = torch.nn.functional.cross_entropy(logits[0], block[0, 1:], reduction="sum")
            total += float(losses)
            count += block.shape[1] - 1
    return {"perplexity": math.exp(total / count), "tokens": count}
