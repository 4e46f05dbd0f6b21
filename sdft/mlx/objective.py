"""Loss and gradient of one training step on MLX, computed a few rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import mlx.core as mx
import numpy as np

from selfsurf.sdft.mlx import loss as losses
from selfsurf.sdft.mlx.forgetting import RetentionRows
from selfsurf.sdft.mlx.loss import PaddedRows, padded
from selfsurf.sdft.mlx.student import Student, Weights
from selfsurf.sdft.rows.samples import Sample, allowed_masks
from selfsurf.sdft.run.batches import KNOWN, Batches, StepRows
from selfsurf.sdft.teacher.following import FOLLOWS, Places, heeded, throughout

ROWS = 8
"""Number of rows computed at a time; their gradients are summed over the step."""

MULTIPLE = 32
"""Multiple to which lengths are rounded up if functions are compiled."""


class Objective:
    """Losses and gradients of a student.

    Args:
        student: the student to train.
        batches: batches of its run.
        compiled: whether MLX compiles the functions, once for each batch shape; None compiles on a Mac's GPU only.
    """

    def __init__(self, student: Student, batches: Batches, *, compiled: bool | None = None) -> None:
        self._student = student
        self._batches = batches
        self._settings = batches.settings
        on = mx.metal.is_available() if compiled is None else compiled
        self._multiple = MULTIPLE if on else 1
        wrap: Callable[[Any], Any] = mx.compile if on else lambda function: function
        settings = self._settings
        # Everything that changes is an argument, because a compiled function treats its closure as constant.
        self._read = wrap(self._logits)
        self._apart = wrap(mx.value_and_grad(partial(self._divergence, settings.temperature, settings.divergence)))
        self._from_before = wrap(mx.value_and_grad(partial(self._divergence, 1.0, 0.0)))
        self._unlikely = wrap(mx.value_and_grad(self._cross_entropy))
        self._mixed = wrap(mx.value_and_grad(self._mixture))

    def gradient(
        self, drawn: StepRows, kept: Mapping[str, tuple[float, RetentionRows]]
    ) -> tuple[float, Weights, dict[str, float]]:
        """Return the loss of a step, its gradient, and columns of the metrics.

        Args:
            drawn: rows of the step.
            kept: by name, a weight and the rows on which the student is kept close to an earlier model.

        Raises:
            NothingToTeach: the teacher doesn't differ from the student.
        """
        total, gradient, figures = self._distilled(drawn.rows)
        parts: list[tuple[float, Weights]] = [(total, gradient)] if gradient else []
        if drawn.shown:
            value, gradient = self._summed(self._shown(drawn.shown, figures))
            figures["recorded/loss"] = value
            parts.append((value, gradient))
        for name, (weight, one) in kept.items():
            value, gradient = self._summed([self._held(one)])
            figures[f"{name}/divergence"] = value
            parts.append((weight * value, {key: weight * each for key, each in gradient.items()}))
        value, gradient = _sum(parts) if parts else (0.0, {})
        return value, gradient, figures

    def _distilled(self, rows: Sequence[Sample]) -> tuple[float, Weights, dict[str, float]]:
        """Return the mean over rows of the divergence from the teacher, its gradient, and columns of the metrics."""
        settings = self._settings
        figures: dict[str, float] = {}
        parts = [rows[start : start + ROWS] for start in range(0, len(rows), ROWS)]
        laid = [padded([(row.prompt_ids, row.completion_ids) for row in part], self._multiple) for part in parts]
        chosen = settings.teacher_weights == "chosen"
        told = [self._teacher_logits(part, self._batches.places(part), figures) for part in parts]
        if not self._batches.compared:
            apart = 0.0
            for one, teacher in zip(laid, told, strict=True):
                now = self._softmax(self._run(self._read, self._student.weights, one.ids, one.at))
                apart += float((losses.divergence(now, self._softmax(teacher)) * one.mask).sum())
            figures.update(self._batches.compare(apart, float(sum(float(one.mask.sum()) for one in laid))))
        told = [self._softmax(teacher / settings.teacher_temperature) for teacher in told]
        masks = [one.mask for one in laid]
        if chosen:
            kept = [self._heeded(part, one, teacher) for part, one, teacher in zip(parts, laid, told, strict=True)]
            masks = [mask * mx.array(each)[:, None] for mask, each in zip(masks, kept, strict=True)]
            figures["teacher/unheeded"] = sum(each.count(False) for each in kept)
        before = sum(float(mask.sum()) for mask in masks)
        masks = [
            losses.confident(teacher, mask, settings.min_confidence) for teacher, mask in zip(told, masks, strict=True)
        ]
        tokens = sum(float(mask.sum()) for mask in masks)
        figures.update(self._batches.gated(int(tokens), int(before - tokens)))
        if not tokens:
            return 0.0, {}, {**figures, "sdft/distillation_loss": 0.0}
        counted = sum(int((mask.sum(-1) > 0).sum()) for mask in masks)
        by_token, found = 0.0, []
        for part, one, teacher, mask in zip(parts, laid, told, masks, strict=True):
            share = mask / mx.maximum(mask.sum(-1, keepdims=True), 1) / counted
            weighed = self._weights_of(part, one)
            (value, each), gradient = self._run(self._apart, self._student.weights, one, teacher, share, *weighed)
            by_token += float((each * mask).sum())
            found.append((float(value), gradient))
        figures["sdft/distillation_loss"] = by_token / tokens
        return *_sum(found), figures

    def _teacher_logits(self, rows: Sequence[Sample], places: Sequence[Places], figures: dict[str, float]) -> mx.array:
        """Return the logits (B, C, V) of the run's teacher for rows."""
        which = self._settings.teacher_weights
        return self._chosen(rows, places, figures) if which == "chosen" else self._teacher(rows, which)

    def _chosen(self, rows: Sequence[Sample], places: Sequence[Places], figures: dict[str, float]) -> mx.array:
        """Return the averaged teacher's logits, except in rows where only the untrained model follows.

        The number of these rows is added to `figures`.
        """
        teacher, sharp = self._teacher(rows, "ema"), self._settings.teacher_temperature
        follows = _following(self._softmax(teacher / sharp), places)
        if asked := [row for row, one in enumerate(follows) if one < FOLLOWS]:
            base = self._teacher(rows, "base")
            found = _following(self._softmax(base / sharp), places)
            better = [row in asked and found[row] > follows[row] for row in range(len(rows))]
            teacher = mx.where(mx.array(better)[:, None, None], base, teacher)
            figures["teacher/base"] = figures.get("teacher/base", 0) + sum(better)
        return teacher

    def _heeded(self, rows: Sequence[Sample], one: PaddedRows, teacher: mx.array) -> list[bool]:
        """Return for each row whether it teaches; the others would make the student unlearn demonstrated actions."""
        now = self._softmax(self._run(self._read, self._student.weights, one.ids, one.at))
        places = self._batches.places(rows)
        return [heeded(*pair) for pair in zip(_following(teacher, places), _following(now, places), strict=True)]

    def _teacher(self, rows: Sequence[Sample], which: str) -> mx.array:
        """Return the logits (B, C, V) of one kind of teacher, at the student's temperature."""
        one = padded([(row.teacher_prompt_ids, row.completion_ids) for row in rows], self._multiple)
        student = self._student
        weights = {"ema": student.teacher, "base": student.base, "live": student.weights}[which]
        assert weights is not None
        return self._run(self._read, weights, one.ids, one.at)

    def _weights_of(self, rows: Sequence[Sample], one: PaddedRows) -> tuple[mx.array, ...]:
        """Return the allowed tokens and the original log-probabilities for importance weights; empty if unused."""
        if self._settings.importance_clip is None:
            return ()
        width = one.mask.shape[1]
        vocabulary = self._run(self._read, self._student.weights, one.ids[:1, :1], one.at[:1, :1] * 0).shape[-1]
        allowed = allowed_masks(rows, self._student.policy, vocabulary)
        old = np.zeros((len(rows), width), dtype=np.float32)
        for place, row in enumerate(rows):
            old[place, : len(row.logprobs)] = row.logprobs
        rest = ((0, 0), (0, width - allowed.shape[1]), (0, 0))
        return mx.array(np.pad(allowed, rest, constant_values=True)), mx.array(old)

    def _shown(self, rows: Sequence[Sample], figures: dict[str, float]) -> Iterable[tuple[float, Weights]]:
        """Yield losses and gradients of rows with a known action: means over rows of means over unlearned tokens.

        The share of rows learned from the teacher is added to `figures`. `EpisodeSDFTTrainer._shown_losses` is the
        torch version.
        """
        settings, heard = self._settings, list[bool]()
        for start in range(0, len(rows), ROWS):
            part = rows[start : start + ROWS]
            one = padded([(row.prompt_ids, row.completion_ids) for row in part], self._multiple)
            share = one.mask / len(rows)
            done = [throughout(row.completion_ids) for row in part]
            teacher = self._softmax(self._teacher_logits(part, done, figures) / settings.teacher_temperature)
            follows = [each >= FOLLOWS for each in _following(teacher, done)]
            heard += follows
            if any(follows):
                taught = losses.confident(teacher, mx.array(follows)[:, None], settings.min_confidence)
                value, gradient = self._run(self._mixed, self._student.weights, one, teacher, taught, share)
            else:
                value, gradient = self._run(self._unlikely, self._student.weights, one, share)
            yield float(value), gradient
        self._batches.heard(heard)
        figures["recorded/distilled"] = sum(heard) / len(heard)

    def _held(self, kept: RetentionRows) -> tuple[float, Weights]:
        """Return the divergence from an earlier model: the mean over rows of the mean over each row's tokens."""
        mask = kept.rows.mask
        share = mask / mask.sum(-1, keepdims=True) / len(mask)
        (value, _), gradient = self._run(self._from_before, self._student.weights, kept.rows, kept.target, share)
        return float(value), gradient

    def _run(self, function: Callable[..., Any], weights: Weights, *given: Any) -> Any:
        """Compute with `weights`, then restore the student's: tracing leaves placeholders in the model."""
        flat = [
            part
            for one in given
            for part in ((one.ids, one.at, one.targets) if isinstance(one, PaddedRows) else (one,))
        ]
        try:
            found = function(weights, *flat)
            mx.eval(found)
        finally:
            self._student.use(self._student.weights)
        return found

    def _summed(self, parts: Iterable[tuple[float, Weights]]) -> tuple[float, Weights]:
        return _sum(list(parts))

    def _logits(self, weights: Weights, ids: mx.array, at: mx.array) -> mx.array:
        self._student.use(weights)
        return losses.logits_at(self._student.net, ids, at) / self._settings.temperature

    def _divergence(
        self, temperature: float, alpha: float, weights: Weights, ids: mx.array, at: mx.array, targets: mx.array,
        teacher: mx.array, share: mx.array, allowed: mx.array | None = None, old: mx.array | None = None,
    ) -> tuple[mx.array, mx.array]:  # fmt: skip
        self._student.use(weights)
        student = losses.logprobs(self._student.net, ids, at, temperature)
        each = losses.divergence(student, teacher, alpha)
        most = self._settings.importance_clip
        if allowed is not None and old is not None and most is not None:
            each = each * losses.importance(student, targets, allowed, old, most)
        return (each * share).sum(), each

    def _cross_entropy(
        self, weights: Weights, ids: mx.array, at: mx.array, targets: mx.array, share: mx.array
    ) -> mx.array:
        self._student.use(weights)
        student = losses.logprobs(self._student.net, ids, at, self._settings.temperature)
        return losses.mean_of_unknown(-losses.picked(student, targets), share, KNOWN)

    def _mixture(
        self, weights: Weights, ids: mx.array, at: mx.array, targets: mx.array, teacher: mx.array, taught: mx.array,
        share: mx.array,
    ) -> mx.array:  # fmt: skip
        self._student.use(weights)
        student = losses.logprobs(self._student.net, ids, at, self._settings.temperature)
        apart = losses.divergence(student, teacher, self._settings.divergence)
        each = mx.where(taught > 0, apart, -losses.picked(student, targets))
        return losses.mean_of_unknown(each, share, KNOWN)

    @staticmethod
    def _softmax(logits: mx.array) -> mx.array:
        return logits - mx.logsumexp(logits, axis=-1, keepdims=True)


def _sum(parts: Sequence[tuple[float, Weights]]) -> tuple[float, Weights]:
    total, gradient = parts[0]
    for value, more in parts[1:]:
        total, gradient = total + value, {name: each + more[name] for name, each in gradient.items()}
        mx.eval(gradient)
    return total, gradient


def _following(logprobs: mx.array, places: Sequence[Places]) -> list[float]:
    """Return the probability of each row's demonstrated action (`sdft.teacher.following`), from logprobs (B, C, V)."""
    return [
        float(mx.exp(row[mx.array(at), mx.array(tokens)].sum())) if at else 1.0
        for row, (at, tokens) in zip(logprobs, places, strict=True)
    ]
