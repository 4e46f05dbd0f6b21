"""SDFT's loss on MLX. `sdft.loss.distillation` documents the same functions for torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx import nn

FORBIDDEN = -1e9
"""Logit of a token that the grammar forbids."""


@dataclass(frozen=True)
class PaddedRows:
    """Rows of prompt and completion in one batch, padded on the right, which causal attention ignores."""

    ids: mx.array
    """Token ids, (B, L)."""
    at: mx.array
    """Positions of the logits that predict the completions' tokens, (B, C)."""
    targets: mx.array
    """Token ids of the completions, (B, C)."""
    mask: mx.array
    """Mask (B, C), 1 for the completions' tokens, 0 for padding."""


def padded(rows: Sequence[tuple[Sequence[int], Sequence[int]]], multiple: int = 1) -> PaddedRows:
    """Pad rows of prompt and completion into a batch.

    Args:
        rows: token ids of the rows.
        multiple: lengths are rounded up to multiples of this number, because a function is compiled for each shape.
    """

    def up(length: int) -> int:
        return -(-length // multiple) * multiple

    length = up(max(len(prompt) + len(completion) for prompt, completion in rows))
    width = up(max(len(completion) for _, completion in rows))
    ids, at, targets, mask = [], [], [], []
    for prompt, completion in rows:
        own, rest = [*prompt, *completion], width - len(completion)
        ids.append(own + [0] * (length - len(own)))
        at.append([*range(len(prompt) - 1, len(own) - 1), *[0] * rest])
        targets.append([*completion, *[0] * rest])
        mask.append([1.0] * len(completion) + [0.0] * rest)
    return PaddedRows(mx.array(ids), mx.array(at), mx.array(targets), mx.array(mask))


class _PickedPositions:
    """Body of a model that returns hidden states only at the given positions, so that no other logits are computed."""

    def __init__(self, body: Any, at: mx.array) -> None:
        self._body, self._at = body, at

    def __call__(self, *args: Any, **options: Any) -> mx.array:
        hidden = self._body(*args, **options)
        return hidden[mx.arange(hidden.shape[0])[:, None], self._at]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._body, name)


def logits_at(net: Any, ids: mx.array, at: mx.array) -> mx.array:
    """Return the float32 logits (B, C, V) of an mlx-lm model at some positions (B, C) of a batch (B, L)."""
    holder = net.get("language_model", net)
    if "model" not in holder:
        logits = net(ids)
        return logits[mx.arange(len(ids))[:, None], at].astype(mx.float32)
    vars(holder)["model"] = _PickedPositions(holder["model"], at)  # takes precedence over the module's own `model`
    try:
        return net(ids).astype(mx.float32)
    finally:
        del vars(holder)["model"]


def logprobs(net: Any, ids: mx.array, at: mx.array, temperature: float = 1.0) -> mx.array:
    """Return the log-probabilities (B, C, V) at some positions, at a temperature."""
    return nn.log_softmax(logits_at(net, ids, at) / temperature, axis=-1)


def divergence(student: mx.array, teacher: mx.array, alpha: float = 0.0) -> mx.array:
    """Return the divergence in nats at each position, from log-probabilities (..., V)."""

    def kl(p: mx.array, q: mx.array) -> mx.array:
        return (mx.exp(p) * (p - q)).sum(-1)

    if alpha in (0.0, 1.0):
        return kl(student, teacher) if alpha else kl(teacher, student)
    mixture = mx.logaddexp(student + mx.log(mx.array(1 - alpha)), teacher + mx.log(mx.array(alpha)))
    return (1 - alpha) * kl(student, mixture) + alpha * kl(teacher, mixture)


def confident(teacher: mx.array, mask: mx.array, least: float) -> mx.array:
    """Return the mask without tokens whose likeliest choice has less than probability `least` under the teacher."""
    return mask * (mx.exp(teacher.max(-1)) >= least)


def picked(logprobs: mx.array, ids: mx.array) -> mx.array:
    """Return the log-probabilities (B, C) of the tokens, from those of all tokens (B, C, V)."""
    return mx.take_along_axis(logprobs, ids[..., None], axis=-1)[..., 0]


def importance(student: mx.array, ids: mx.array, allowed: mx.array, old: mx.array, most: float) -> mx.array:
    """Return the sampled tokens' importance weights (B, C): current over original probability, at most `most`."""
    now = picked(nn.log_softmax(mx.where(allowed, student, FORBIDDEN), axis=-1), ids)
    return mx.stop_gradient(mx.minimum(mx.exp(mx.clip(now - old, -20, 20)), most))


def mean_of_unknown(each: mx.array, share: mx.array, known: float) -> mx.array:
    """Return the weighted sum over rows of each row's mean over the tokens that cost more than `known` nats.

    Args:
        each: losses (B, C).
        share: weight of the row in the loss at its tokens, 0 elsewhere (B, C).
        known: maximum loss of a learned token, in nats.
    """
    unknown = share * (mx.stop_gradient(each) > known)
    return ((each * unknown).sum(-1) / mx.maximum((unknown > 0).sum(-1), 1)).sum()
