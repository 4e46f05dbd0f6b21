"""SDFT's loss on MLX. What each function is, is said in `sdft.loss.distillation`, which is the same on torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx import nn

FORBIDDEN = -1e9
"""Logit of a token that the grammar forbids."""


@dataclass(frozen=True)
class Padded:
    """Rows of prompt and completion in one batch, padded at their ends: no token sees what comes after it."""

    ids: mx.array
    """(B, L), the tokens."""
    at: mx.array
    """(B, C), where the logits about the completions' tokens are."""
    targets: mx.array
    """(B, C), these tokens."""
    mask: mx.array
    """(B, C), 1 for those that count."""


def padded(rows: Sequence[tuple[Sequence[int], Sequence[int]]], multiple: int = 1) -> Padded:
    """Lay out rows of prompt and completion.

    Args:
        rows: their tokens.
        multiple: lengths are rounded up to multiples of this: a compiled function is compiled for each shape.
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
    return Padded(mx.array(ids), mx.array(at), mx.array(targets), mx.array(mask))


class _Picked:
    """A model's body that gives its hidden states at some places only, so that no other logits are computed."""

    def __init__(self, body: Any, at: mx.array) -> None:
        self._body, self._at = body, at

    def __call__(self, *args: Any, **options: Any) -> mx.array:
        hidden = self._body(*args, **options)
        return hidden[mx.arange(hidden.shape[0])[:, None], self._at]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._body, name)


def logits_at(net: Any, ids: mx.array, at: mx.array) -> mx.array:
    """Return float32 logits (B, C, V) of an mlx-lm model at some places (B, C) of a batch (B, L)."""
    holder = net.get("language_model", net)
    if "model" not in holder:
        logits = net(ids)
        return logits[mx.arange(len(ids))[:, None], at].astype(mx.float32)
    vars(holder)["model"] = _Picked(holder["model"], at)  # found before what the module itself has of that name
    try:
        return net(ids).astype(mx.float32)
    finally:
        del vars(holder)["model"]


def logprobs(net: Any, ids: mx.array, at: mx.array, temperature: float = 1.0) -> mx.array:
    """Return log-probabilities as `logits_at` does logits, at a temperature."""
    return nn.log_softmax(logits_at(net, ids, at) / temperature, axis=-1)


def divergence(student: mx.array, teacher: mx.array, alpha: float = 0.0) -> mx.array:
    """Return the divergence in nats at each position, of log-probabilities (..., V)."""

    def kl(p: mx.array, q: mx.array) -> mx.array:
        return (mx.exp(p) * (p - q)).sum(-1)

    if alpha in (0.0, 1.0):
        return kl(student, teacher) if alpha else kl(teacher, student)
    mixture = mx.logaddexp(student + mx.log(mx.array(1 - alpha)), teacher + mx.log(mx.array(alpha)))
    return (1 - alpha) * kl(student, mixture) + alpha * kl(teacher, mixture)


def confident(teacher: mx.array, mask: mx.array, least: float) -> mx.array:
    """Return the mask without the tokens for which the teacher's likeliest choice has less probability."""
    return mask * (mx.exp(teacher.max(-1)) >= least)


def picked(logprobs: mx.array, ids: mx.array) -> mx.array:
    """Return those (B, C) of the tokens, of (B, C, V)."""
    return mx.take_along_axis(logprobs, ids[..., None], axis=-1)[..., 0]


def importance(student: mx.array, ids: mx.array, allowed: mx.array, old: mx.array, most: float) -> mx.array:
    """Return how much likelier the student has become to sample its tokens, at most `most`."""
    now = picked(nn.log_softmax(mx.where(allowed, student, FORBIDDEN), axis=-1), ids)
    return mx.stop_gradient(mx.minimum(mx.exp(mx.clip(now - old, -20, 20)), most))


def mean_of_unknown(each: mx.array, share: mx.array, known: float) -> mx.array:
    """Return the sum over rows of the mean over those of their tokens that cost more than `known` nats.

    Args:
        each: losses (B, C).
        share: that of a row in the loss at its tokens, 0 elsewhere (B, C).
        known: nats of a token that is learned.
    """
    unknown = share * (mx.stop_gradient(each) > known)
    return ((each * unknown).sum(-1) / mx.maximum((unknown > 0).sum(-1), 1)).sum()
