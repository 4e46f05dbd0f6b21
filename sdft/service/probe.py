"""Probe of an adapter: the trained model's logits after a fixed text, by which other machines can verify it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from selfsurf.sdft.service.schemas import Probe

TEXT = 'The page shows:\nlink "Home" id 1\nbutton "Submit" id 2\ntextbox "Name" id 3\nReply with one action: {"click":'
MOST = 16
"""Number of tokens whose logits are recorded."""
TOLERANCE = 1e-3
"""Maximum difference between float32 logits of the same adapter on different kernels."""
ROUNDING = 2.0**-6
"""Maximum difference between 16-bit logits of the same adapter, as a share of the largest logit. SmolLM2's in bfloat16
and float32 differ by 0.007 of it."""


def record(model: Any, tokenizer: Any) -> Probe:
    """Return the probe of a PEFT model.

    Args:
        model: the model, with the adapter active.
        tokenizer: the model's tokenizer.
    """
    with_adapter = _logits(model, tokenizer)
    with model.disable_adapter():
        without = _logits(model, tokenizer)
    values, ids = with_adapter.topk(MOST)
    return Probe(
        text=TEXT,
        tokens=tuple(ids.tolist()),
        logits=tuple(values.tolist()),
        moved=float((with_adapter - without)[ids].abs().max()),
        dtype=str(next(model.parameters()).dtype).removeprefix("torch."),
    )


def compare(probe: Probe, model: str, adapter: Path) -> tuple[float, float]:
    """Load an adapter; return how far its logits are from the recorded ones, and the maximum difference allowed.

    The maximum is a quarter of the adapter's effect, or the rounding error if that is larger.

    Raises:
        agents.model_files.ModelError: the base model is missing, or a different one.
    """
    from selfsurf.agents.policies.transformers.policy import TransformersPolicy

    dtype = "fp32" if probe.dtype == "float32" else "auto"
    policy = TransformersPolicy(model, adapter=str(adapter), dtype=dtype)
    found = _logits(policy.model, policy.tokenizer, probe.text)[list(probe.tokens)]
    difference = max(abs(one - other) for one, other in zip(found.tolist(), probe.logits, strict=True))
    rounding = TOLERANCE if probe.dtype == "float32" else ROUNDING * max(map(abs, probe.logits))
    return difference, max(rounding, probe.moved / 4)


def _logits(model: Any, tokenizer: Any, text: str = TEXT) -> Any:
    import torch

    training = model.training
    model.eval()
    try:
        ids = tokenizer(text, return_tensors="pt").input_ids.to(next(model.parameters()).device)
        with torch.no_grad():
            return model(input_ids=ids).logits[0, -1].float().cpu()
    finally:
        model.train(training)
