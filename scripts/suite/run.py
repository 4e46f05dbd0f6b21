"""A run: every task of a suite on every seed, by workers that may fail, with a ledger that balances."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from selfsurf.agents.play import Ask, Job, Ledger, Result
from selfsurf.agents.play.job import failed
from selfsurf.browser_env import Outcome
from selfsurf.browser_env.session.patience import Stopwatch
from selfsurf.scripts.suite.health import Accounts, Health
from selfsurf.scripts.suite.limits import RunLimits
from selfsurf.scripts.suite.plan import Key, Plan, record_of
from selfsurf.scripts.suite.records import Records, unwritable
from selfsurf.scripts.suite.worker import Message

GONE = "gone"
"""What a pool says of a worker that has died: `("gone", text)`."""

NODE_GONE = "node gone"
"""What a pool says of a worker that was lost with its machine: `("node gone", text)`."""

PENDING = "pending"
"""What a pool says of a worker that waits for its place: `("pending", text)`."""

LOSSES = 2
"""Workers that have to be lost while the agent was asked, at least, until that counts as its failure."""

STARTS = 3
"""Times that a worker may die before it is ready."""

RAISES = 20
"""Episodes in a row in which the agent raised, from the first one on, after which a run gives up."""

SLACK = 60.0
"""Seconds beyond an episode's time after which a worker that says nothing counts as hung."""


class RunError(RuntimeError):
    """A run can't go on. What has been done stays in the records."""


class Pool(Protocol):
    """Workers, by number, wherever they are."""

    def start(self, number: int) -> None:
        """Start a worker, or another in its place."""

    def send(self, number: int, message: Message) -> None:
        """Send a message. One to a worker that has died is lost, which `receive` tells."""

    def receive(self, timeout: float) -> list[tuple[int, Message]]:
        """Return what the workers have said, waiting up to `timeout` seconds for something."""

    def kill(self, number: int) -> None:
        """End a worker and everything it has started, at once. Nothing more comes from it."""

    def close(self) -> None:
        """Let the workers end, and kill those that do not."""


@dataclass
class _State:
    """What the run knows of a worker."""

    ready: bool = False
    place: str = ""
    """Which process it is, and where."""
    deaths: int = 0
    """In a row, before it was ready."""
    losses: int = 0
    held: dict[int, Ask] = field(default_factory=dict)
    """What was sent to it and has not ended, by number."""
    begun: set[int] = field(default_factory=set)
    """Of those, what is being played."""
    acting: list[Ask] = field(default_factory=list)
    """Those for which the agent was asked and has not answered."""
    heard: float = field(default_factory=time.monotonic)
    """When its last message came, or it was given something to do."""
    silent: Stopwatch = field(default_factory=Stopwatch)
    """Since then."""


class Run:
    """Runs what the records have no verdict of yet.

    Args:
        plan: what to run.
        records: the records.
        pool: the workers.
        told: called with every record that is new.
        said: called with a sentence on what befell a worker.
    """

    def __init__(
        self,
        plan: Plan,
        records: Records,
        pool: Pool,
        told: Callable[[dict[str, Any]], None] = lambda record: None,
        said: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._plan, self._records, self._pool, self._told, self._said = plan, records, pool, told, said
        tried = records.done.__contains__  # what was never tried comes first: it shows whether anything works
        jobs = [Job(*key) for key in sorted(filter(records.open, asked(plan)), key=tried)]
        self._ledger = Ledger(jobs, reruns=plan.retries)
        self._workers = {number: _State() for number in range(min(plan.processes, max(1, len(jobs))))}
        self._accounts = Accounts(records.done)
        self._health = Health({job.env_id for job in jobs}, records.worked, records.broken)
        self._lost: Counter[int] = Counter()
        """Attempts at each episode that were lost with their worker while the agent was asked, by number."""
        self._unsure: list[dict[str, Any]] = []
        """Records that may say nothing but that nothing works: they are kept back until something has."""
        self._limits = RunLimits(plan)
        self._stopping = ""
        self._raised: int | None = 0
        self.began: float | None = None
        """When the first worker was ready (`time.monotonic`)."""

    def work(self) -> str:
        """Run until all is done, or a limit is reached; return which, or nothing.

        Raises:
            RunError: the agent can't be made or raises in every episode, nothing works, workers die before they begin,
                or a limit can't be kept.
        """
        if self._ledger.done:
            return ""
        self._limits.start()
        try:
            for number in self._workers:
                self._pool.start(number)
            while not self._ledger.done:
                if self._limits.late:
                    for number in self._workers:
                        self._pool.kill(number)
                    self._stopping = self._limits.reached
                    break
                self._stopping = self._stopping or self._limits.reached  # what is under way has cost something
                if self._stopping and not any(state.held for state in self._workers.values()):
                    break
                for number, message in self._pool.receive(0.5):
                    self._handle(number, message)
                for number in self._workers:
                    self._watch(number)
                    self._feed(number)
            self._settle()
            return self._stopping
        finally:
            self._pool.close()

    def _handle(self, number: int, message: Message) -> None:
        state = self._workers[number]
        state.heard, state.silent = time.monotonic(), Stopwatch()
        kind, *content = message
        if kind == "ready":
            state.ready, state.deaths, state.place = True, 0, content[0]
            self.began = self.began or state.heard
            if state.losses:
                self._said(f"Worker {number} is replaced ({state.place}).")
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
        elif kind == PENDING:
            self._said(f"Worker {number} is pending: {content[0]}")
        elif kind in (GONE, NODE_GONE):
            self._died(number, content[0], blamed=kind == GONE)

    def _feed(self, number: int) -> None:
        """Keep a worker supplied: what it plays, and as much again, so that none of its slots stands idle.

        Where each episode counts against a limit, it gets no more than it plays.
        """
        state = self._workers[number]
        most = self._plan.slots_of(number) * (1 if self._limits.metered else 2)
        while state.ready and not (self._stopping or self._limits.reached) and len(state.held) < most:
            first = self._ledger.first
            if first is None or any(one.alone for one in state.held.values()):
                return
            alone = first.alone or self._accounts.of(_key(first)).crashes > 0
            if alone and state.held:
                return
            self._ledger.next()
            ask = self._ledger.isolate(first) if alone else first
            if not state.held:  # it had nothing to say before
                state.heard, state.silent = time.monotonic(), Stopwatch()
            state.held[ask.number] = ask
            self._pool.send(number, ("run", ask))

    def _ended(self, ask: Ask, result: Result, record: dict[str, Any] | None = None) -> None:
        ill = self._health.add(ask, result)
        if result.masked:
            self._accounts.add(ask, result)
            if result.crashed:
                ask = self._ledger.isolate(ask)
        before = self._ledger.closed
        self._ledger.ended(ask, result)
        self._limits.add(result)
        if self._ledger.closed > before:  # or else it is run again
            self._record(ask, result, record or record_of(result))
        if ill:
            again = "The same command runs them again." if self._health.alive else "Nothing of it is recorded."
            raise RunError(f"{ill.rstrip('.')}. {again}")
        if self._limits.unknown:
            raise RunError(self._limits.unknown)

    def _record(self, ask: Ask, result: Result, record: dict[str, Any]) -> None:
        account = self._accounts.of(_key(ask))
        ended = {name: record_of(result)[name] for name in ("outcome", "outcome_detail")}
        self._unsure.append({**record, **ended, **vars(account)})
        if self._health.alive:
            self._settle()
        if self._raised is not None:
            self._raised = self._raised + 1 if result.agent_raised else None
            if self._raised is not None and self._raised >= RAISES:
                raise RunError(f"The agent raises in every episode: {result.detail}.")

    def _settle(self) -> None:
        """Write down what was kept back."""
        records, self._unsure = self._unsure, []
        for record in records:
            try:
                new = self._records.add(record)
            except OSError as error:
                raise RunError(unwritable(self._records.folder, error)) from None
            if new:
                self._told(record)

    def _watch(self, number: int) -> None:
        """Kill a worker that hangs."""
        state = self._workers[number]
        if state.silent.look() < self._plan.episode_timeout + (0 if state.acting else SLACK) or not state.held:
            return
        silent = time.monotonic() - state.heard
        self._pool.kill(number)
        detail = f"the agent did not answer within {self._plan.episode_timeout:g} s"
        if len(state.acting) == 1:  # it is known for which episode
            (ask,) = state.acting
            state.held.pop(ask.number, None)
            late = Result(ask.job, str(Outcome.TIMEOUT), trainable=True, detail=detail, attempt=ask.attempt)
            late.seconds = late.agent_seconds = silent
            self._ended(ask, late)
            state.acting, state.begun = [], set()  # those beside it are not to blame
        self._replace(number, f"a worker said nothing for {silent:.0f} s")

    def _died(self, number: int, text: str, *, blamed: bool) -> None:
        state = self._workers[number]
        if not state.ready:
            state.deaths += 1
            if state.deaths >= STARTS:
                raise RunError(f"Workers die before they begin: {text}. Their output above may say why.")
        self._replace(number, text, blamed=blamed)

    def _replace(self, number: int, why: str, *, blamed: bool = True) -> None:
        """Have a lost worker's episodes played again, say what was lost, and start another in its place."""
        state = self._workers[number]
        again, left = len(state.held), sum(each.ready for each in self._workers.values()) - state.ready
        place = f" ({state.place})" if state.place else ""
        self._said(
            f"Lost: worker {number}{place}, {why}; {again} episodes are run again, {left} of {len(self._workers)} "
            "workers are left."
        )
        self._records.lost({"worker": number, "place": state.place, "why": why, "again": again, "left": left})
        self._give_back(state, why, blamed=blamed)
        self._workers[number] = _State(deaths=state.deaths, losses=state.losses + 1)
        if not self._stopping:
            self._pool.start(number)

    def _give_back(self, state: _State, why: str, *, blamed: bool) -> None:
        """Have the episodes of a lost worker played again.

        Those of which one may have been the cause are played alone from then on. One that was alone already was it:
        that was one of its attempts. If the agent was asked in each of them, the failure is the agent's, but not where
        none is `blamed`.
        """
        suspects = state.acting or [one for number, one in state.held.items() if number in state.begun]
        for ask in [one for one in state.held.values() if one not in suspects]:
            self._ledger.put_back(ask)
        for ask in map(self._ledger.isolate, suspects):
            if len(suspects) > 1:
                self._ledger.put_back(ask)
                continue
            result = replace(failed(ask.job, why), attempt=ask.attempt)
            self._lost[ask.number] += blamed and bool(state.acting)
            if self._lost[ask.number] >= max(self._plan.retries + 1, LOSSES):
                result.end(Outcome.FAILED, trainable=False, detail=f"{why} each time that the agent was asked")
                result.agent_raised = True
            self._ended(ask, result)
        state.held.clear()


def asked(plan: Plan) -> list[Key]:
    """Return the episodes that a plan asks for, in the order in which a new run plays them.

    Each task's first seed comes before all others, so that what is broken shows early; then a task's stand together,
    since its environments are used again.
    """
    tasks, (first, *others) = [str(task["id"]) for task in plan.tasks], plan.seeds
    return [*((task, first) for task in tasks), *((task, seed) for task in tasks for seed in others)]


def _key(ask: Ask) -> Key:
    return ask.job.env_id, ask.job.seed
