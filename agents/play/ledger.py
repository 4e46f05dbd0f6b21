"""The ledger of a batch: every episode that was asked for ends exactly once, finished or masked."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from selfsurf.agents.play.job import Ask, Job, Result, derived, failed

RERUNS = 1
"""Times that an episode is run again when the infrastructure failed it."""

LOSSES = 3
"""Times that an episode is run again because its worker was lost. More than `RERUNS`, for a worker takes all its
episodes with it, whichever was to blame."""


class LedgerError(AssertionError):
    """An episode was lost, or came twice: an error in this program."""


@dataclass(frozen=True)
class Tally:
    """What became of the episodes that were asked for."""

    asked: int = 0
    finished: int = 0
    """Ended by the agent, the task or a limit of steps."""
    masked: int = 0
    """Failed by the infrastructure each time: `env_error`, never learned from or counted as failure."""
    rerun: int = 0
    """Run again after an `env_error`."""
    lost: int = 0
    """Run again, or masked, because their worker was gone."""
    late: int = 0
    """Results of attempts that had been given up, thrown away."""

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(Tally)))

    def __sub__(self, other: Tally) -> Tally:
        return Tally(*(getattr(self, each.name) - getattr(other, each.name) for each in fields(Tally)))

    def check(self) -> Tally:
        """Return it.

        Raises:
            LedgerError: it does not add up.
        """
        if self.asked != self.finished + self.masked:
            raise LedgerError(f"Of {self.asked} episodes, {self.finished} finished and {self.masked} were masked.")
        return self


class Ledger:
    """Hands out a batch's episodes and records how they end.

    Args:
        jobs: the episodes. The same job twice is two episodes, which draw differently.
        seed: what actions are drawn from; None leaves it to the agent.
        version: of the weights that act.
        reruns: times that an episode is run again when the infrastructure failed it.
    """

    def __init__(self, jobs: Sequence[Job], *, seed: int | None = None, version: int = 0, reruns: int = RERUNS) -> None:
        self.jobs = tuple(jobs)
        self.version = version
        self._reruns = reruns
        self._queue: deque[Ask] = deque()
        self._out: dict[int, Ask] = {}
        self._results: dict[int, Result] = {}
        self._counts: Counter[str] = Counter()
        self._losses: Counter[int] = Counter()
        repeats: Counter[Job] = Counter()
        for number, job in enumerate(self.jobs):
            own = None if seed is None else derived(seed, job.env_id, job.seed, repeats[job])
            repeats[job] += 1
            self._queue.append(Ask(number, job, seed=own, version=version))

    def next(self) -> Ask | None:
        """Return an episode to be run now, or None when all are done or under way."""
        if not self._queue:
            return None
        ask = self._queue.popleft()
        self._out[ask.number] = ask
        return ask

    def ended(self, ask: Ask, result: Result) -> None:
        """Record how an attempt ended. An episode that the infrastructure failed is run again."""
        if not self._is_out(ask):
            return
        if result.masked and ask.attempt - self._losses[ask.number] < self._reruns:
            self._counts["rerun"] += 1
            self._again(ask)
            return
        self._close(ask, result)

    def lost(self, ask: Ask, why: str) -> None:
        """Record that an attempt is gone with the worker that made it."""
        if not self._is_out(ask):
            return
        self._counts["lost"] += 1
        self._losses[ask.number] += 1
        if self._losses[ask.number] <= LOSSES:
            self._again(ask)
        else:
            self._close(ask, failed(ask.job, why, ask.version))

    def put_back(self, ask: Ask) -> None:
        """Have an attempt made again as it was: it was not to blame for what befell its worker."""
        if self._is_out(ask):
            del self._out[ask.number]
            self._queue.appendleft(ask)

    def isolate(self, ask: Ask) -> Ask:
        """Have an attempt under way, and those that follow it, played alone from now on (`Ask.alone`)."""
        if not self._is_out(ask):
            return ask
        alone = self._out[ask.number] = replace(ask, alone=True)
        return alone

    @property
    def first(self) -> Ask | None:
        """What `next` would return."""
        return self._queue[0] if self._queue else None

    @property
    def closed(self) -> int:
        """Episodes that have ended."""
        return len(self._results)

    @property
    def waiting(self) -> int:
        """Episodes that are to be run and are not under way."""
        return len(self._queue)

    @property
    def done(self) -> bool:
        """Whether all have ended."""
        return self.closed == len(self.jobs)

    def results(self) -> list[Result]:
        """Return the results in the order of the jobs.

        Raises:
            LedgerError: an episode has no result, or another's.
        """
        missing = [number for number in range(len(self.jobs)) if number not in self._results]
        if missing or self._out or self._queue or len(self._results) != len(self.jobs):
            raise LedgerError(f"Of {len(self.jobs)} episodes, these have no end: {missing[:10]}.")
        results = [self._results[number] for number in range(len(self.jobs))]
        if any(result.job != job for result, job in zip(results, self.jobs, strict=True)):
            raise LedgerError("An episode's result is another's.")
        return results

    def tally(self) -> Tally:
        """Return the tally of a batch that is done.

        Raises:
            LedgerError: it does not add up.
        """
        masked = sum(result.masked for result in self.results())
        counts: dict[str, Any] = dict(self._counts)
        return Tally(len(self.jobs), len(self._results) - masked, masked, **counts).check()

    def _is_out(self, ask: Ask) -> bool:
        if self._out.get(ask.number) == ask:
            return True
        self._counts["late"] += 1
        return False

    def _again(self, ask: Ask) -> None:
        del self._out[ask.number]
        self._queue.appendleft(replace(ask, attempt=ask.attempt + 1))

    def _close(self, ask: Ask, result: Result) -> None:
        if ask.number in self._results:
            raise LedgerError(f"Episode {ask.number} has ended twice.")
        del self._out[ask.number]
        self._results[ask.number] = result
