"""Retention of a model's earlier abilities, as perplexity on a fixed text of general prose."""

from __future__ import annotations

import math
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from selfsurf.agents.policies.transformers.policy import TransformersPolicy

BLOCK = 512
"""Length of a block in tokens. Blocks are scored independently."""
MOST_NATS = 700.0
"""Mean negative log-likelihood at which perplexity counts as infinite, since its exponential overflows."""
DRIFT_TOKENS = 256
"""Number of tokens of the text on which drift is measured; small because drift is measured often."""


def general_text() -> str:
    """Return the general text: fourteen passages of description, instruction, dialogue, letter and exposition.

    They were written for this purpose, so that no model has seen them in training.
    """
    return resources.files("selfsurf.sdft").joinpath("data/general.txt").read_text(encoding="utf8")


def perplexity(policy: TransformersPolicy, text: str | None = None) -> dict[str, Any]:
    """Return the model's perplexity on a text.

    Args:
        policy: the model with its active adapter, on torch, or a model trained on MLX (`TrainedPolicy`).
        text: the text to score; the general text by default.

    Returns:
        `perplexity` (exp of the mean negative log-likelihood per token, in nats; infinite if that overflows a float or
        is NaN) and `tokens`, the number scored.
    """
    ids = policy.tokenizer.encode(general_text() if text is None else text, add_special_tokens=False)
    blocks = [ids[start : start + BLOCK + 1] for start in range(0, len(ids) - 1, BLOCK)]
    total, count = sum(_loss(policy, block) for block in blocks), len(ids) - 1
    mean = total / count
    return {"perplexity": math.exp(mean) if mean < MOST_NATS else math.inf, "tokens": count}


def _loss(policy: Any, ids: list[int]) -> float:
    """Return the summed negative log-likelihood of all tokens but the first."""
    if hasattr(policy, "text_logprobs"):
        return -float(policy.text_logprobs(ids[:-1])[np.arange(len(ids) - 1), ids[1:]].sum(dtype=np.float64))
    import torch

    with policy.reading():
        block = torch.tensor([ids], device=policy.model.get_input_embeddings().weight.device)
        logits = policy.model(input_ids=block[:, :-1]).logits.float()
        return float(torch.nn.functional.cross_entropy(logits[0], block[0, 1:], reduction="sum"))


def drift(policy: TransformersPolicy) -> float:
    """Return how far training has moved the model: mean KL(base || student) in nats per token, on general text.

    Args:
        policy: a PEFT model whose active adapter is the student's, or a model trained on MLX.
    """
    ids = policy.tokenizer.encode(general_text(), add_special_tokens=False)[:DRIFT_TOKENS]
    if hasattr(policy, "text_logprobs"):
        before, now = (policy.text_logprobs(ids, base=base) for base in (True, False))
        return float((np.exp(before) * (before - now)).sum(-1).mean())
    import torch

    block = torch.tensor([ids], device=policy.model.get_input_embeddings().weight.device)
    with policy.reading():
        student = torch.log_softmax(policy.model(input_ids=block).logits[0].float(), -1)
        with policy.model.disable_adapter():
            base = torch.log_softmax(policy.model(input_ids=block).logits[0].float(), -1)
        return float((base.exp() * (base - student)).sum(-1).mean())
