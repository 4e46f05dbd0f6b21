"""Bookkeeping of a batch: every requested episode ends exactly once, finished or masked."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from selfsurf.agents.play.job import EpisodeRequest, Job, Result, derived, failed

RERUNS = 1
"""Maximum number of reruns of an episode after failures of the infrastructure."""

LOSSES = 3
"""Maximum number of reruns of an episode after losses of its worker. More than `RERUNS`, because a lost worker takes
all its episodes with it, whichever caused the loss."""


class LedgerError(AssertionError):
    """An episode was lost or ended twice: a bug in this program."""


@dataclass(frozen=True)
class EpisodeCounts:
    """Counts of the requested episodes by result."""

    asked: int = 0
    finished: int = 0
    """Episodes ended by the agent, the task or a step limit."""
    masked: int = 0
    """Episodes that the infrastructure failed at every attempt (`env_error`); not trained on or counted as failures."""
    rerun: int = 0
    """Attempts repeated after an `env_error`."""
    lost: int = 0
    """Attempts repeated or masked because their worker was lost."""
    late: int = 0
    """Discarded results of attempts that had been given up."""

    def __add__(self, other: EpisodeCounts) -> EpisodeCounts:
        return EpisodeCounts(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(EpisodeCounts)))

    def __sub__(self, other: EpisodeCounts) -> EpisodeCounts:
        return EpisodeCounts(*(getattr(self, each.name) - getattr(other, each.name) for each in fields(EpisodeCounts)))

    def check(self) -> EpisodeCounts:
        """Return the tally itself if it adds up.

        Raises:
            LedgerError: finished and masked episodes don't add up to the requested ones.
        """
        if self.asked != self.finished + self.masked:
            raise LedgerError(f"Of {self.asked} episodes, {self.finished} finished and {self.masked} were masked.")
        return self


class Ledger:
    """Hands out a batch's episodes and records their results.

    Args:
        jobs: the episodes. A repeated job is another episode with other samples.
        seed: seed of the actions; None leaves sampling to the agent.
        version: version of the acting weights.
        reruns: maximum number of reruns of an episode after failures of the infrastructure.
    """

    def __init__(self, jobs: Sequence[Job], *, seed: int | None = None, version: int = 0, reruns: int = RERUNS) -> None:
        self.jobs = tuple(jobs)
        self.version = version
        self._reruns = reruns
        self._queue: deque[EpisodeRequest] = deque()
        self._out: dict[int, EpisodeRequest] = {}
        self._results: dict[int, Result] = {}
        self._counts: Counter[str] = Counter()
        self._losses: Counter[int] = Counter()
        repeats: Counter[Job] = Counter()
        for number, job in enumerate(self.jobs):
            own = None if seed is None else derived(seed, job.env_id, job.seed, repeats[job])
            repeats[job] += 1
            self._queue.append(EpisodeRequest(number, job, seed=own, version=version))

    def next(self) -> EpisodeRequest | None:
        """Return the next episode to be played; None if none is waiting."""
        if not self._queue:
            return None
        ask = self._queue.popleft()
        self._out[ask.number] = ask
        return ask

    def ended(self, ask: EpisodeRequest, result: Result) -> None:
        """Record the result of an attempt, or queue a rerun after a failure of the infrastructure."""
        if not self._is_out(ask):
            return
        if result.masked and ask.attempt - self._losses[ask.number] < self._reruns:
            self._counts["rerun"] += 1
            self._again(ask)
            return
        self._close(ask, result)

    def lost(self, ask: EpisodeRequest, why: str) -> None:
        """Record an attempt that was lost with its worker; rerun or mask its episode."""
        if not self._is_out(ask):
            return
        self._counts["lost"] += 1
        self._losses[ask.number] += 1
        if self._losses[ask.number] <= LOSSES:
            self._again(ask)
        else:
            self._close(ask, failed(ask.job, why, ask.version))

    def put_back(self, ask: EpisodeRequest) -> None:
        """Queue an attempt again unchanged, because it didn't cause the loss of its worker."""
        if self._is_out(ask):
            del self._out[ask.number]
            self._queue.appendleft(ask)

    def isolate(self, ask: EpisodeRequest) -> EpisodeRequest:
        """Have a running attempt and its reruns played alone from now on (`EpisodeRequest.alone`)."""
        if not self._is_out(ask):
            return ask
        alone = self._out[ask.number] = replace(ask, alone=True)
        return alone

    @property
    def first(self) -> EpisodeRequest | None:
        """The attempt that `next` would return."""
        return self._queue[0] if self._queue else None

    @property
    def closed(self) -> int:
        """Number of ended episodes."""
        return len(self._results)

    @property
    def waiting(self) -> int:
        """Number of episodes waiting to be played."""
        return len(self._queue)

    @property
    def done(self) -> bool:
        """Whether all episodes have ended."""
        return self.closed == len(self.jobs)

    def results(self) -> list[Result]:
        """Return the results in the order of the jobs.

        Raises:
            LedgerError: an episode has no result, or the result of another.
        """
        missing = [number for number in range(len(self.jobs)) if number not in self._results]
        if missing or self._out or self._queue or len(self._results) != len(self.jobs):
            raise LedgerError(f"Of {len(self.jobs)} episodes, these have not ended: {missing[:10]}.")
        results = [self._results[number] for number in range(len(self.jobs))]
        if any(result.job != job for result, job in zip(results, self.jobs, strict=True)):
            raise LedgerError("An episode has the result of another episode.")
        return results

    def tally(self) -> EpisodeCounts:
        """Return the tally of a completed batch.

        Raises:
            LedgerError: the tally doesn't add up.
        """
        masked = sum(result.masked for result in self.results())
        counts: dict[str, Any] = dict(self._counts)
        return EpisodeCounts(len(self.jobs), len(self._results) - masked, masked, **counts).check()

    def _is_out(self, ask: EpisodeRequest) -> bool:
        if self._out.get(ask.number) == ask:
            return True
        self._counts["late"] += 1
        return False

    def _again(self, ask: EpisodeRequest) -> None:
        del self._out[ask.number]
        self._queue.appendleft(replace(ask, attempt=ask.attempt + 1))

    def _close(self, ask: EpisodeRequest, result: Result) -> None:
        if ask.number in self._results:
            raise LedgerError(f"Episode {ask.number} has ended twice.")
        del self._out[ask.number]
        self._results[ask.number] = result
