"""What an SDFT trainer learns from in each step, whatever library it computes with: rows of the student's episodes.

Knows what was told about them, when there is nothing to teach, and when the infrastructure has failed too often.
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
from selfsurf.sdft.rows.recorded import Recorded
from selfsurf.sdft.rows.samples import Sample, choose, learnable, samples_of
from selfsurf.sdft.run.metrics import batch_figures
from selfsurf.sdft.settings import TrainSettings
from selfsurf.sdft.teacher.following import FOLLOWS, Places, places
from selfsurf.sdft.teacher.lessons import Lessons
from selfsurf.sdft.teacher.oracle import Oracle
from selfsurf.sdft.teacher.recording import Recording

MOST_FAILED = 3
"""Batches in a row in which the environment failed in every episode, that end a run; fewer if it has fewer."""

KNOWN = 0.05
"""Nats that a token of a recorded action costs at most where it counts as learned: it teaches nothing more."""

_ACTIONS = 1
"""Tells the seeds of a step's actions from those of its choice of rows."""


class NothingToTeach(ValueError):
    """The teacher is no different from the student."""


@dataclass(frozen=True)
class Processes:
    """One of several processes that train together; by default the only one."""

    rank: int = 0
    count: int = 1
    over_all: Callable[[float], float] = float
    """The mean of a number over all of them, all of which must ask."""


@dataclass(frozen=True)
class Drawn:
    """What one step learns from."""

    rows: list[Sample]
    """Those on which student and teacher are compared."""
    shown: list[Sample] | None
    """Those whose completion is the known action, learned from a teacher that follows, else as it is
    (`sdft.teacher.following`); None: that is not done in this run."""
    figures: dict[str, float]
    """Columns of the metrics."""


@dataclass
class Failures:
    """Counts the batches in a row in which the environment failed in every episode."""

    steps: int
    """Of the run."""
    _count: int = 0

    def count(self, results: Sequence[Result], *, usable: bool) -> None:
        """Count a batch.

        Raises:
            RolloutError: there are too many of them.
        """
        self._count = 0 if usable else self._count + 1
        if self._count == min(MOST_FAILED, self.steps):
            outcomes = sorted({f"{result.outcome} {result.detail}".strip() for result in results})
            raise RolloutError(
                f"No step of the last {self._count} batches can be learned from: the environment failed "
                f"({'; '.join(outcomes)}). When that is mended, the same command with --resume (resume=True) resumes "
                "from the last checkpoint, or begins again if there is none."
            )


@dataclass
class Batches:
    """The batches of an SDFT run."""

    settings: TrainSettings
    policy: LocalPolicy
    """Of the student."""
    collector: Collector
    """Gives the episodes."""
    jobs: Sequence[Job]
    """Of the run, in order."""
    episodes: int
    """Of this process in each step."""
    max_rows: int
    """The same, of rows."""
    lessons: Lessons = field(default_factory=lambda: Lessons((Oracle(),)))
    """What the teacher is told."""
    recordings: Sequence[Recording] = ()
    """What of them is learned from directly."""
    recorded_rows: int = 0
    """How many of their steps this process learns in each step."""
    compared: bool = False
    """Have teacher and student been compared already?"""
    processes: Processes = field(default_factory=Processes)
    learned: bool = True
    """Does the current batch teach anything, in any process?"""

    def __post_init__(self) -> None:
        settings, rank = self.settings, self.processes.rank
        gate = settings.success_gate and not settings.offline  # only what passes it is there
        self._taught: Any = {"teacher_sees": settings.teacher_sees, "success_gate": gate}
        self._recorded = Recorded(self.recordings, self.policy, settings)
        self._failures = Failures(settings.steps)
        several = [rank] if rank else []
        self._several = several
        self.pipeline = Pipeline(
            self.collector,
            jobs_of=self.jobs_of,
            seed_of=lambda at: int(np.random.default_rng([settings.seed, at, _ACTIONS, *several]).integers(2**31)),
        )
        self._idle = None if self.compared or self.lessons.come_later or settings.success_gate else 0
        """Batches so far that taught nothing; None once one has, or where that is to be expected."""
        self._told = False
        """Was anything told about the current batch, in any process? Asked only while `_idle` counts."""
        self._shown = False
        """Is a row of the current batch learned whose action is known, in any process?"""
        self._explained = 0
        """How many of those rows, the first ones, have what a large model explains in the teacher's prompt."""
        self._unheard: int | None = 0 if settings.enrich else None
        """Batches so far of whose explanations nothing was learned; None once something was, or without any."""

    def draw(self, number: int, jobs: list[Job]) -> Drawn:
        """Play the episodes of a step and choose rows of them.

        Args:
            number: optimizer steps so far.
            jobs: the episodes.

        Raises:
            NothingToTeach: the first batches taught nothing.
            RolloutError: the episodes can't be made.
        """
        # Everything random hangs on the seed and the step, so that a resumed run goes on as the unbroken one would.
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
            return Drawn(rows, None, found)
        own = self._recorded.instead(rows)
        shown, self._explained = [*own, *recorded], len(own)
        self._shown = over_all(bool(shown)) > 0
        left = [row for row in rows if row.told is None] if shown else rows
        found["tokens/learned"] = sum(len(one.completion_ids) for one in (*left, *shown))
        return Drawn(left, shown or None, {**found, **({"rows/recorded": len(recorded)} if shown else {})})

    def places(self, rows: Sequence[Sample]) -> list[Places]:
        """Return for each row where it tells how likely what was told is (`sdft.teacher.following`)."""
        write = self._recorded.written_ids
        return [places(row.completion_ids, None if row.told is None else write(row.told)) for row in rows]

    def gated(self, kept: int, left_out: int) -> dict[str, float]:
        """Note how many tokens the teacher is sure of, and how many were left out.

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
                f"the confidence gate left out all of it ({left_out} tokens). Set min_confidence lower."
                if left_out
                else "neither the average of the student's weights nor the untrained model does what it is told. "
                'Another teacher_wording, or teacher="base", may help.'
            )
        return {"gate/confidence": left_out}

    def heard(self, follows: Sequence[bool]) -> None:
        """Note which rows whose action is known are learned from the teacher.

        Raises:
            NothingToTeach: a large model explains actions, and nothing of that was learned in the first batches.
        """
        own = follows[: self._explained]
        if self._unheard is None or not own:
            return
        self._unheard = None if any(own) else self._unheard + 1
        if self._unheard == min(MOST_FAILED, self.settings.steps):
            raise NothingToTeach(
                f"Nothing of what enrich explains was learned in {self._unheard} batches: told what was done, the "
                f"teacher gives it less than {FOLLOWS:g} of the probability, and the action itself is learned. Leave "
                "out enrich, or set recorded_rows=0, by which the teacher alone teaches."
            )

    def compare(self, divergence: float, tokens: float) -> dict[str, float]:
        """Note how far the teacher is from the student, before anything is learned.

        The teacher's distribution is taken as it is: sharpened, even one that knows nothing more differs.

        Args:
            divergence: in nats, summed over this process's tokens.
            tokens: how many these are.

        Returns:
            A column of the metrics; none where nothing was told about this batch.

        Raises:
            NothingToTeach: it is not far enough.
        """
        total, count = self.processes.over_all(divergence), self.processes.over_all(tokens)
        if count == 0:
            return {}
        self.compared = True
        mean, least = total / count, self.settings.least_first_divergence
        if least > 0 and mean < least and not self.recorded_rows:
            raise NothingToTeach(
                f"With its demonstration the teacher differs from the student by {mean:.2g} nats a token only (at "
                f"least {least:g} are wanted): there is nothing to learn. The demonstration is "
                "too weak, the student knows the tasks already, or, in a run that goes on from an adapter, an average "
                'of its weights (teacher="ema") does what it has learned before, whatever it is told: the untrained '
                'model (teacher="base") may not. least_first_divergence=0 trains all the same.'
            )
        return {"step0_divergence": mean}

    def _count_idle(self, why: str) -> None:
        """Count the batches at a run's beginning that taught nothing.

        Raises:
            NothingToTeach: there are too many of them.
        """
        if self._idle is None:
            return
        self._idle += 1
        if self._idle == min(MOST_FAILED, self.settings.steps):
            raise NothingToTeach(f"The first {self._idle} batches taught nothing. Of the last: {why}")

    def jobs_of(self, number: int) -> list[Job]:
        """The episodes of this process in a step; a data loader gives them in this order, too."""
        start = self.episodes * (number * self.processes.count + self.processes.rank)
        return [self.jobs[index % len(self.jobs)] for index in range(start, start + self.episodes)]


def _why_untold(results: Sequence[Result]) -> str:
    """Say why nothing was told about a batch."""
    sampled = any(step.decision.completion.token_ids for result in results for step in result.steps)
    if not sampled and any(result.led for result in results):
        return "the oracle took every step of every episode, and the student none. Set `lead` lower."
    return (
        "nothing could be told about any step. The right actions may be of kinds that the student is not offered "
        '(--set \'actions=["click","fill","select","press"]\' offers more), or about elements that it is not shown '
        "(max_prompt_tokens)."
    )
