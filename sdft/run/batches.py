"""Batches of an SDFT trainer, for any learning library: rows made of the student's episodes.

Drawing them includes the teacher's context, and raises if there is nothing to teach or the infrastructure fails too
often.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from selfsurf.agents.policies.local.policy import LocalPolicy
from selfsurf.sdft.rollouts import Job, Result, RolloutError
from selfsurf.sdft.rollouts.collector import Collector
from selfsurf.sdft.rollouts.pipeline import Pipeline, figures
from selfsurf.sdft.rows.recorded import RecordedRows
from selfsurf.sdft.rows.samples import Sample, choose, learnable, samples_of
from selfsurf.sdft.run.metrics import batch_figures
from selfsurf.sdft.settings import TrainSettings
from selfsurf.sdft.teacher.following import FOLLOWS, Places, places
from selfsurf.sdft.teacher.lessons import LessonContext
from selfsurf.sdft.teacher.oracle import OracleContext
from selfsurf.sdft.teacher.recording import Recording

MOST_FAILED = 3
"""Number of consecutive batches that end a run if the environment fails in all their episodes; fewer in shorter runs.
"""

KNOWN = 0.05
"""Maximum loss, in nats, at which a token of a recorded action counts as learned and teaches nothing more."""

_ACTIONS = 1
"""Salt that separates the seeds of a step's actions from those of its choice of rows."""


class NothingToTeach(ValueError):
    """The teacher doesn't differ from the student, so there is nothing to learn."""


@dataclass(frozen=True)
class Processes:
    """Position of this process in distributed training; by default the only process."""

    rank: int = 0
    count: int = 1
    over_all: Callable[[float], float] = float
    """Function that returns the mean of a number over all processes. Every process has to call it."""


@dataclass(frozen=True)
class StepRows:
    """Rows and metrics of one optimizer step."""

    rows: list[Sample]
    """Rows on which student and teacher are compared."""
    shown: list[Sample] | None
    """Rows whose completion is the known action, learned from a teacher that follows, or else by cross-entropy
    (`sdft.teacher.following`). None if the step has no such rows."""
    figures: dict[str, float]
    """Columns of the metrics."""


@dataclass
class Failures:
    """Counter of consecutive batches in which the environment failed in every episode."""

    steps: int
    """Number of optimizer steps of the run."""
    _count: int = 0

    def count(self, results: Sequence[Result], *, usable: bool) -> None:
        """Count a batch.

        Raises:
            RolloutError: too many batches in a row were unusable.
        """
        self._count = 0 if usable else self._count + 1
        if self._count == min(MOST_FAILED, self.steps):
            outcomes = sorted({f"{result.outcome} {result.detail}".strip() for result in results})
            raise RolloutError(
                f"No step of the last {self._count} batches can be learned from, because the environment failed "
                f"({'; '.join(outcomes)}). Fix the cause, then run the same command with --resume (in Python "
                "resume=True): it resumes from the last checkpoint, or begins again if there is none."
            )


@dataclass
class Batches:
    """The batches of an SDFT run."""

    settings: TrainSettings
    policy: LocalPolicy
    """Policy of the student."""
    collector: Collector
    """Source of the episodes."""
    jobs: Sequence[Job]
    """Episodes of the run, in order."""
    episodes: int
    """Number of this process's episodes in each step."""
    max_rows: int
    """Maximum number of this process's rows in each step."""
    lessons: LessonContext = field(default_factory=lambda: LessonContext((OracleContext(),)))
    """Contexts of the teacher."""
    recordings: Sequence[Recording] = ()
    """Recorded episodes that are also learned from directly."""
    recorded_rows: int = 0
    """Number of recorded steps that this process learns in each step."""
    compared: bool = False
    """Whether teacher and student have been compared already."""
    processes: Processes = field(default_factory=Processes)
    learned: bool = True
    """Whether the current batch teaches anything in any process."""

    def __post_init__(self) -> None:
        settings, rank = self.settings, self.processes.rank
        gate = settings.success_gate and not settings.offline  # offline, only steps that pass the gate are loaded
        self._taught: Any = {"teacher_sees": settings.teacher_sees, "success_gate": gate}
        self._recorded = RecordedRows(self.recordings, self.policy, settings)
        self._failures = Failures(settings.steps)
        several = [rank] if rank else []
        self._several = several
        self.pipeline = Pipeline(
            self.collector,
            jobs_of=self.jobs_of,
            seed_of=lambda at: int(np.random.default_rng([settings.seed, at, _ACTIONS, *several]).integers(2**31)),
        )
        self._idle = None if self.compared or self.lessons.come_later or settings.success_gate else 0
        """Number of batches so far that taught nothing; None after a batch has taught something, or if idle batches are
        expected."""
        self._told = False
        """Whether the teacher had context for any row of the current batch, in any process. Updated only while `_idle`
        counts."""
        self._shown = False
        """Whether the current batch has a row with a known action, in any process."""
        self._explained = 0
        """Number of leading rows with a known action whose teacher prompt may contain a large model's explanation."""
        self._unheard: int | None = 0 if settings.enrich else None
        """Number of batches so far from whose explanations nothing was learned; None once something was, or without
        `enrich`."""

    def draw(self, number: int, jobs: list[Job]) -> StepRows:
        """Play the episodes of a step and choose rows of them.

        Args:
            number: optimizer steps so far.
            jobs: the episodes.

        Raises:
            NothingToTeach: the first batches taught nothing.
            RolloutError: the episodes can't be played.
        """
        # All randomness depends on the seed and the step, so that a resumed run continues as an uninterrupted one.
        rng = np.random.default_rng([self.settings.seed, number, *self._several])
        over_all = self.processes.over_all
        episodes = self.pipeline.batch(number, jobs, self.settings.steps)
        results = episodes.results
        usable = over_all(sum(map(learnable, results))) > 0
        self._failures.count(results, usable=usable)
        samples = samples_of(results, self.policy, self.lessons, number, **self._taught)
        recorded = self._recorded.rows(number * self.processes.count + self.processes.rank, self.recorded_rows)
        if self._idle is not None:
            self._told = over_all(len(samples) + len(recorded)) > 0
            if usable and not self._told:
                self._count_idle(_why_untold(results))
        rows = choose(samples, self.max_rows, rng)
        found = {
            **batch_figures(results, samples, rows),
            **self.lessons.take_counts(),
            **figures(episodes, number, [row.version for row in rows]),
        }
        if not self.recorded_rows:
            return StepRows(rows, None, found)
        own = self._recorded.instead(rows)
        shown, self._explained = [*own, *recorded], len(own)
        self._shown = over_all(bool(shown)) > 0
        left = [row for row in rows if row.told is None] if shown else rows
        found["tokens/learned"] = sum(len(one.completion_ids) for one in (*left, *shown))
        return StepRows(left, shown or None, {**found, **({"rows/recorded": len(recorded)} if shown else {})})

    def places(self, rows: Sequence[Sample]) -> list[Places]:
        """Return each row's positions that give the demonstrated action's probability (`sdft.teacher.following`)."""
        write = self._recorded.written_ids
        return [places(row.completion_ids, None if row.told is None else write(row.told)) for row in rows]

    def gated(self, kept: int, left_out: int) -> dict[str, float]:
        """Record how many tokens the teacher is confident of, and how many were left out.

        Returns:
            A column of the metrics.

        Raises:
            NothingToTeach: the first batches taught nothing.
        """
        self.learned = self.processes.over_all(bool(kept)) > 0 or self._shown
        if self.learned:
            self._idle = None
        elif self._told:
            self._count_idle(
                f"the confidence gate left out all {left_out} tokens. Lower min_confidence."
                if left_out
                else "neither the average of the student's weights nor the untrained model follows the teacher's "
                'context. Try another teacher_wording, or teacher="base".'
            )
        return {"gate/confidence": left_out}

    def heard(self, follows: Sequence[bool]) -> None:
        """Record which rows with a known action are learned from the teacher.

        Raises:
            NothingToTeach: a large model explains actions, and nothing was learned from its explanations in the first
                batches.
        """
        own = follows[: self._explained]
        if self._unheard is None or not own:
            return
        self._unheard = None if any(own) else self._unheard + 1
        if self._unheard == min(MOST_FAILED, self.settings.steps):
            raise NothingToTeach(
                f"In {self._unheard} batches nothing was learned from the explanations of enrich: the teacher gives "
                f"the recorded action a probability below {FOLLOWS:g}, so only the action itself is learned. Leave out "
                "enrich, or set recorded_rows=0 to learn from the teacher alone."
            )

    def compare(self, divergence: float, tokens: float) -> dict[str, float]:
        """Record the divergence of teacher and student before any learning.

        The teacher's distribution is not sharpened here: a sharpened one would differ even without additional
        knowledge.

        Args:
            divergence: sum over this process's tokens, in nats.
            tokens: number of these tokens.

        Returns:
            A column of the metrics; none if the teacher had no context for this batch.

        Raises:
            NothingToTeach: the divergence is too small.
        """
        total, count = self.processes.over_all(divergence), self.processes.over_all(tokens)
        if count == 0:
            return {}
        self.compared = True
        mean, least = total / count, self.settings.least_first_divergence
        if least > 0 and mean < least and not self.recorded_rows:
            raise NothingToTeach(
                f"With its demonstration the teacher differs from the student by only {mean:.2g} nats per token (at "
                f"least {least:g} are required), so there is nothing to learn. The demonstration may be too weak, or "
                "the student may already know the tasks. In a run with start_from, an averaged teacher "
                '(teacher="ema") may also repeat what the adapter has learned despite its demonstration: try '
                'teacher="base". To train anyway, set least_first_divergence=0.'
            )
        return {"step0_divergence": mean}

    def _count_idle(self, why: str) -> None:
        """Count the batches at the start of a run that taught nothing.

        Raises:
            NothingToTeach: there are too many of them.
        """
        if self._idle is None:
            return
        self._idle += 1
        if self._idle == min(MOST_FAILED, self.settings.steps):
            raise NothingToTeach(f"The first {self._idle} batches taught nothing. In the last one, {why}")

    def jobs_of(self, number: int) -> list[Job]:
        """Return the episodes of this process in a step, in the order of the data loader."""
        start = self.episodes * (number * self.processes.count + self.processes.rank)
        return [self.jobs[index % len(self.jobs)] for index in range(start, start + self.episodes)]


def _why_untold(results: Sequence[Result]) -> str:
    """Return the reason why the teacher had no context for a batch."""
    sampled = any(step.decision.completion.token_ids for result in results for step in result.steps)
    if not sampled and any(result.led for result in results):
        return "the oracle took every step of every episode, and the student none. Lower `lead`."
    return (
        "the teacher had no information about any step. The right actions may be of kinds that the student is not "
        'offered (to offer more, --set \'actions=["click","fill","select","press"]\'), or their elements may be '
        "missing from its prompt (max_prompt_tokens)."
    )
