"""A run: every task of a suite on every seed, by workers that may fail, with books that balance."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from selfsurf.browser_env import Outcome
from selfsurf.scripts.suite.books import Books
from selfsurf.scripts.suite.plan import Key, Plan, Record, Request
from selfsurf.scripts.suite.pool import GONE, Pool

STARTS = 3
"""Times that a worker may die before it is ready."""

RAISES = 20
"""Episodes in a row in which the agent raised, from the first one on, after which a run gives up."""

SLACK = 60.0
"""Seconds beyond an episode's time after which a worker that says nothing counts as hung."""


class RunError(RuntimeError):
    """A run can't go on. What has been done stays in the books."""


@dataclass
class _State:
    """What the run knows of a worker."""

    ready: bool = False
    deaths: int = 0
    """In a row, before it was ready."""
    held: dict[Key, Request] = field(default_factory=dict)
    begun: set[Key] = field(default_factory=set)
    """Of those held, what runs."""
    acting: list[Request] = field(default_factory=list)
    """Those for which the agent was asked and has not answered."""
    heard: float = field(default_factory=time.monotonic)
    """When it last said something."""


class Run:
    """Runs what the books do not have yet.

    Args:
        plan: what to run.
        seeds: of every task.
        books: where it is taken down.
        pool: the workers.
        processes: how many workers.
        slots: episodes at the same time in each.
        retries: times that an episode is run again when the infrastructure failed it.
        deadline: seconds after which nothing new is begun and what is under way is dropped; None for none.
        told: called with every record that is new.
    """

    def __init__(
        self,
        plan: Plan,
        seeds: tuple[int, ...],
        books: Books,
        pool: Pool,
        *,
        processes: int = 1,
        slots: int = 1,
        retries: int = 2,
        deadline: float | None = None,
        told: Callable[[dict[str, Any]], None] = lambda record: None,
    ) -> None:
        self._plan, self._books, self._pool = plan, books, pool
        self._slots, self._retries, self._deadline, self._told = slots, retries, deadline, told
        asked = [Request(task, seed) for task in range(len(plan.tasks)) for seed in seeds]
        self._queue = deque(one for one in asked if self._key(one) not in books.records)
        self._workers = {number: _State() for number in range(min(processes, max(1, len(self._queue))))}
        self._raised: int | None = 0
        self.began: float | None = None
        """When the first worker was ready (`time.monotonic`)."""

    def work(self) -> bool:
        """Run until all is done (True) or the deadline is over (False).

        Raises:
            RunError: the agent can't be made, raises in every episode, or workers die before they begin.
        """
        end = None if self._deadline is None else time.monotonic() + self._deadline
        if not self._queue:
            return True
        try:
            for number in self._workers:
                self._pool.start(number)
            while self._queue or any(state.held for state in self._workers.values()):
                if end is not None and time.monotonic() > end:
                    for number in self._workers:
                        self._pool.kill(number)
                    return False
                for number, message in self._pool.receive(0.5):
                    self._hear(number, message)
                for number in self._workers:
                    self._watch(number)
                    self._feed(number)
            return True
        finally:
            self._pool.close()

    def _key(self, request: Request) -> Key:
        return str(self._plan.tasks[request.task]["id"]), request.seed

    def _hear(self, number: int, message: tuple[Any, ...]) -> None:
        state = self._workers[number]
        state.heard = time.monotonic()
        kind, *content = message
        if kind == "ready":
            state.ready, state.deaths = True, 0
            self.began = self.began or state.heard
        elif kind == "broken":
            raise RunError(content[0])
        elif kind == "begun":
            state.begun.add(self._key(content[0]))
        elif kind == "acting":
            state.acting = content[0]
        elif kind == "acted":
            state.acting = []
        elif kind == "done":
            request, record = content
            state.held.pop(self._key(request), None)
            state.begun.discard(self._key(request))
            self._finished(request, record)
        elif kind == GONE:
            self._died(number, content[0])

    def _feed(self, number: int) -> None:
        """Keep a worker supplied: what it runs, and as much again, so that no place in it stands idle."""
        state = self._workers[number]
        if not state.ready:
            return
        while self._queue and len(state.held) < 2 * self._slots:
            if any(one.alone for one in state.held.values()) or (self._queue[0].alone and state.held):
                return
            request = self._queue.popleft()
            state.held[self._key(request)] = request
            self._pool.send(number, ("run", request))

    def _finished(self, request: Request, record: dict[str, Any]) -> None:
        if record["outcome"] == Outcome.ENV_ERROR and request.attempt <= self._retries:
            self._queue.append(replace(request, attempt=request.attempt + 1))
            return
        try:
            new = self._books.add(record)
        except OSError as error:
            raise RunError(f"{self._books.folder} can't be written: {error}.") from None
        if new:
            self._told(record)
        if self._raised is not None:
            self._raised = self._raised + 1 if record["agent_raised"] else None
            if self._raised is not None and self._raised >= RAISES:
                raise RunError(f"The agent raises in every episode: {record['outcome_detail']}.")

    def _watch(self, number: int) -> None:
        """Kill a worker that hangs."""
        state = self._workers[number]
        silent = time.monotonic() - state.heard
        if not state.held or silent < self._plan.episode_timeout + (0 if state.acting else SLACK):
            return
        self._pool.kill(number)
        detail = f"the agent did not answer within {self._plan.episode_timeout:g} s"
        if len(state.acting) == 1:  # it is known for which episode
            (request,) = state.acting
            state.held.pop(self._key(request), None)
            task, seed = self._key(request)
            record = Record(task, seed, str(Outcome.TIMEOUT), detail, seconds=silent, agent_seconds=silent)
            self._finished(request, asdict(replace(record, attempts=request.attempt)))
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

    def _give_back(self, state: _State, failed: str) -> None:
        """Put the requests of a lost worker back.

        Those of which one may have been the cause run alone from then on. One that was alone already was it: that was
        one of its attempts. If the agent was asked in the last of them, the failure is the agent's.
        """
        suspects = state.acting or [one for key, one in state.held.items() if key in state.begun]
        for request in [one for one in state.held.values() if one not in suspects]:
            self._queue.appendleft(request)
        for request in suspects:
            if len(suspects) > 1:
                self._queue.appendleft(replace(request, alone=True))
                continue
            again = replace(request, alone=True)
            task, seed = self._key(request)
            by_agent = bool(state.acting) and request.attempt > self._retries
            outcome = Outcome.FAILED if by_agent else Outcome.ENV_ERROR
            detail = f"{failed} each time that the agent was asked" if by_agent else failed
            record = Record(task, seed, str(outcome), detail, attempts=request.attempt, agent_raised=by_agent)
            self._finished(again, asdict(record))
        state.held.clear()

    def _restart(self, number: int) -> None:
        self._workers[number] = replace(_State(), deaths=self._workers[number].deaths)
        self._pool.start(number)
