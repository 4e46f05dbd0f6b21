"""Rehearsal and practice on MLX: rows on which the student is kept close to an earlier model (`sdft.loss`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import mlx.core as mx
import numpy as np

from selfsurf.sdft.forgetting import practice, rehearsal
from selfsurf.sdft.mlx.loss import PaddedRows, logprobs, padded
from selfsurf.sdft.mlx.student import Student, TrainedPolicy
from selfsurf.sdft.settings import TrainSettings


@dataclass(frozen=True)
class RetentionRows:
    """Rows of one step on which the student is kept close to another distribution."""

    rows: PaddedRows
    target: mx.array
    """Log-probabilities of the other distribution, (B, C, V)."""


@dataclass
class Rehearsal:
    """Texts of the untrained model, to which the student is kept close."""

    texts: Sequence[list[int]]
    most: int
    """Number of texts used in one step."""
    seed: int
    weight: float

    def of(self, student: Student, step: int) -> RetentionRows:
        """Return a step's texts, with the untrained model's log-probabilities after each of their tokens."""
        texts = [self.texts[row] for row in rehearsal.drawn(self.seed, step, len(self.texts), self.most)]
        ids = mx.array(texts)
        at = mx.broadcast_to(mx.arange(ids.shape[1])[None], ids.shape)
        with student.as_(student.base):
            target = logprobs(student.net, ids, at)
            mx.eval(target)
        return RetentionRows(PaddedRows(ids, at, ids, mx.ones(ids.shape)), target)


class Practice:
    """Steps of the adapter that a run starts from, to which the student is kept close.

    Args:
        student: the student before the run.
        rows: prompts and replies.
        settings: settings of the run.
    """

    def __init__(self, student: Student, rows: Sequence[practice.Row], settings: TrainSettings) -> None:
        self.weight = practice.weight_of(settings)
        self._settings = settings
        self._rows = list(rows)
        self._before = []
        for row in self._rows:
            one = padded([row])
            target = logprobs(student.net, one.ids, one.at)[0]
            mx.eval(target)
            self._before.append(target)

    def of(self, student: Student, step: int) -> RetentionRows:
        """Return the practice rows of an optimizer step, with the adapter's log-probabilities of their tokens."""
        chosen = rehearsal.drawn(self._settings.seed, step, len(self._rows), self._settings.practice_rows)
        rows = padded([self._rows[row] for row in chosen])
        width = rows.at.shape[1]
        before = [self._before[row] for row in chosen]
        return RetentionRows(rows, mx.stack([mx.pad(one, [(0, width - len(one)), (0, 0)]) for one in before]))


def rehearsal_of(settings: TrainSettings, policy: TrainedPolicy, folder: Path, *, begun: bool) -> Rehearsal | None:
    """Return the rehearsal of a run, or None if it has none (`sdft.forgetting.rehearsal.rehearsal_of`)."""
    if not settings.rehearsal:
        return None
    texts = rehearsal.kept_texts(folder, settings, partial(own_texts, policy, settings.seed), begun)
    return Rehearsal(texts, settings.rehearsal_rows, settings.seed, settings.rehearsal)


def own_texts(
    policy: TrainedPolicy, seed: int, rows: int = rehearsal.ROWS, *, length: int = rehearsal.LENGTH
) -> list[list[int]]:
    """Let an untrained model write texts from their first token on; return their token ids (`rows`, `length`)."""
    from mlx_lm.models.cache import make_prompt_cache

    cache, rng = make_prompt_cache(policy.model), np.random.default_rng(seed)
    token = np.full((rows, 1), rehearsal.first_token(policy.tokenizer))
    written = [token]
    for _ in range(length - 1):
        logits = np.array(policy.model(mx.array(token), cache=cache)[:, -1].astype(mx.float32), dtype=np.float64)
        token = (logits + rng.gumbel(size=logits.shape)).argmax(-1)[:, None]
        written.append(token)
    texts: list[list[int]] = np.concatenate(written, axis=1).tolist()
    return texts


def practice_of(
    settings: TrainSettings, policy: TrainedPolicy, student: Student, folder: Path, *, begun: bool
) -> Practice | None:
    """Return the practice of a run, or None if it has none. Errors as in `sdft.forgetting.practice.practice_of`."""
    rows = practice.practice_rows(settings, policy, lambda: policy, folder, begun=begun)
    return Practice(student, rows, settings) if rows else None
