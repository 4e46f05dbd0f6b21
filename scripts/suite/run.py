"""A run: every task of a suite on every seed, by workers that may fail, with a ledger that balances."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from selfsurf.agents.play import Ask, Job, Ledger, Result
from selfsurf.agents.play.job import failed
from selfsurf.browser_env import Outcome
from selfsurf.scripts.suite.plan import Plan, record_of
from selfsurf.scripts.suite.pool import GONE, LocalPool
from selfsurf.scripts.suite.records import Records

if TYPE_CHECKING:
    from selfsurf.scripts.suite.ray_pool import RayPool

STARTS = 3
"""Times that a worker may die before it is ready."""

RAISES = 20
"""Episodes in a row in which the agent raised, from the first one on, after which a run gives up."""

SLACK = 60.0
"""Seconds beyond an episode's time after which a worker that says nothing counts as hung."""


class RunError(RuntimeError):
    """A run can't go on. What has been done stays in the records."""


@dataclass
class _State:
    """What the run knows of a worker."""

    ready: bool = False
    deaths: int = 0
    """In a row, before it was ready."""
    held: dict[int, Ask] = field(default_factory=dict)
    """What was sent to it and has not ended, by number."""
    begun: set[int] = field(default_factory=set)
    """Of those, what is being played."""
    acting: list[Ask] = field(default_factory=list)
    """Those for which the agent was asked and has not answered."""
    heard: float = field(default_factory=time.monotonic)
    """When its last message came."""


class Run:
    """Runs what the records do not have yet.

    Args:
        plan: what to run.
        records: the records.
        pool: the workers.
        told: called with every record that is new.
    """

    def __init__(
        self,
        plan: Plan,
        records: Records,
        pool: LocalPool | RayPool,
        told: Callable[[dict[str, Any]], None] = lambda record: None,
    ) -> None:
        self._plan, self._records, self._pool, self._told = plan, records, pool, told
        asked = [Job(str(task["id"]), seed) for task in plan.tasks for seed in plan.seeds]
        jobs = [job for job in asked if (job.env_id, job.seed) not in records.done]
        self._ledger = Ledger(jobs, reruns=plan.retries)
        self._workers = {number: _State() for number in range(min(plan.processes, max(1, len(jobs))))}
        self._raised: int | None = 0
        self.began: float | None = None
        """When the first worker was ready (`time.monotonic`)."""

    def work(self) -> bool:
        """Run until all is done (True) or the deadline is over (False).

        Raises:
            RunError: the agent can't be made, raises in every episode, or workers die before they begin.
        """
        end = None if self._plan.deadline is None else time.monotonic() + self._plan.deadline
        if self._ledger.done:
            return True
        try:
            for number in self._workers:
                self._pool.start(number)
            while not self._ledger.done:
                if end is not None and time.monotonic() > end:
                    for number in self._workers:
                        self._pool.kill(number)
                    return False
                for number, message in self._pool.receive(0.5):
                    self._handle(number, message)
                for number in self._workers:
                    self._watch(number)
                    self._feed(number)
            return True
        finally:
            self._pool.close()

    def _handle(self, number: int, message: tuple[Any, ...]) -> None:
        state = self._workers[number]
        state.heard = time.monotonic()
        kind, *content = message
        if kind == "ready":
            state.ready, state.deaths = True, 0
            self.began = self.began or state.heard
        elif kind == "broken":
            raise RunError(content[0])
        elif kind == "begun":
            state.begun.add(content[0].number)
        elif kind == "acting":
            state.acting = content[0]
        elif kind == "acted":
            state.acting = []
        elif kind == "done":
            ask, result, record = content
            state.held.pop(ask.number, None)
            state.begun.discard(ask.number)
            self._ended(ask, result, record)
        elif kind == GONE:
            self._died(number, content[0])

    def _feed(self, number: int) -> None:
        """Keep a worker supplied: what it plays, and as much again, so that none of its slots stands idle."""
        state = self._workers[number]
        while state.ready and len(state.held) < 2 * self._plan.slots:
            first = self._ledger.first
            if first is None or any(one.alone for one in state.held.values()) or (first.alone and state.held):
                return
            self._ledger.next()
            state.held[first.number] = first
            self._pool.send(number, ("run", first))

    def _ended(self, ask: Ask, result: Result, record: dict[str, Any] | None = None) -> None:
        before = self._ledger.closed
        self._ledger.ended(ask, result)
        if self._ledger.closed == before:  # it is run again
            return
        record = record or record_of(result)
        try:
            new = self._records.add(record)
        except OSError as error:
            raise RunError(f"{self._records.folder} can't be written: {error}.") from None
        if new:
            self._told(record)
        if self._raised is not None:
            self._raised = self._raised + 1 if result.agent_raised else None
            if self._raised is not None and self._raised >= RAISES:
                raise RunError(f"The agent raises in every episode: {result.detail}.")

    def _watch(self, number: int) -> None:
        """Kill a worker that hangs."""
        state = self._workers[number]
        silent = time.monotonic() - state.heard
        if not state.held or silent < self._plan.episode_timeout + (0 if state.acting else SLACK):
            return
        self._pool.kill(number)
        detail = f"the agent did not answer within {self._plan.episode_timeout:g} s"
        if len(state.acting) == 1:  # it is known for which episode
            (ask,) = state.acting
            state.held.pop(ask.number, None)
            late = Result(ask.job, str(Outcome.TIMEOUT), trainable=True, detail=detail, attempt=ask.attempt)
            late.seconds = late.agent_seconds = silent
            self._ended(ask, late)
            state.acting = []
        self._give_back(state, f"a worker said nothing for {silent:.0f} s")
        self._restart(number)

    def _died(self, number: int, text: str) -> None:
        state = self._workers[number]
        if not state.ready:
            state.deaths += 1
            if state.deaths >= STARTS:
                raise RunError(f"Workers die before they begin: {text}. Their output above may say why.")
        self._give_back(state, text)
        self._restart(number)

    def _give_back(self, state: _State, why: str) -> None:
        """Have the episodes of a lost worker played again.

        Those of which one may have been the cause are played alone from then on. One that was alone already was it:
        that was one of its attempts. If the agent was asked in the last of them, the failure is the agent's.
        """
        suspects = state.acting or [one for number, one in state.held.items() if number in state.begun]
        for ask in [one for one in state.held.values() if one not in suspects]:
            self._ledger.put_back(ask)
        for ask in map(self._ledger.isolate, suspects):
            if len(suspects) > 1:
                self._ledger.put_back(ask)
                continue
            result = replace(failed(ask.job, why), attempt=ask.attempt)
            if state.acting and ask.attempt >= self._plan.retries:
                result.end(Outcome.FAILED, trainable=False, detail=f"{why} each time that the agent was asked")
                result.agent_raised = True
            self._ended(ask, result)
        state.held.clear()

    def _restart(self, number: int) -> None:
        self._workers[number] = replace(_State(), deaths=self._workers[number].deaths)
        self._pool.start(number)
