"""A run of every task of a suite on every seed, by workers that may fail, in which no episode is lost or repeated."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from selfsurf.agents.play import EpisodeRequest, Job, Ledger, Result
from selfsurf.agents.play.job import failed
from selfsurf.browser_env import Outcome
from selfsurf.browser_env.patience import Stopwatch
from selfsurf.scripts.suite.health import Accounts, Health
from selfsurf.scripts.suite.limits import RunLimits
from selfsurf.scripts.suite.plan import Key, Plan, record_of
from selfsurf.scripts.suite.records import Records, unwritable
from selfsurf.scripts.suite.worker import Message

GONE = "gone"
"""Message kind of a pool for a worker that has died: `("gone", text)`."""

NODE_GONE = "node gone"
"""Message kind of a pool for a worker that was lost with its machine: `("node gone", text)`."""

PENDING = "pending"
"""Message kind of a pool for a worker that waits for resources: `("pending", text)`."""

LOSSES = 2
"""Minimum number of workers lost during agent queries for an episode before the agent is blamed."""

STARTS = 3
"""Number of times that a worker may die during its start before the run is given up."""

RAISES = 20
"""Number of episodes after which a run is given up if the agent has raised in all of them."""

SLACK = 60.0
"""Seconds beyond an episode's timeout after which a silent worker counts as hung."""


class RunError(RuntimeError):
    """A run that can't continue. Finished episodes remain in the records."""


class Pool(Protocol):
    """Interface of a pool of numbered workers on any machine."""

    def start(self, number: int) -> None:
        """Start a worker, or its replacement."""

    def send(self, number: int, message: Message) -> None:
        """Send a message to a worker. Messages to dead workers are lost, and `receive` reports the death."""

    def receive(self, timeout: float) -> list[tuple[int, Message]]:
        """Return the workers' messages, waiting up to `timeout` seconds for the first."""

    def kill(self, number: int) -> None:
        """Kill a worker and all its child processes at once. No further messages arrive from it."""

    def close(self) -> None:
        """Stop all workers, and kill those that don't end."""


@dataclass
class _State:
    """The run's view of a worker."""

    ready: bool = False
    place: str = ""
    """Process and machine of the worker."""
    deaths: int = 0
    """Consecutive deaths before the worker was ready."""
    losses: int = 0
    held: dict[int, EpisodeRequest] = field(default_factory=dict)
    """Episodes sent to the worker and not finished, by number."""
    begun: set[int] = field(default_factory=set)
    """Numbers of the held episodes that are being played."""
    acting: list[EpisodeRequest] = field(default_factory=list)
    """Episodes for which the agent has been queried and has not answered."""
    heard: float = field(default_factory=time.monotonic)
    """Monotonic time of the worker's last message, or of its last assignment after being idle."""
    silent: Stopwatch = field(default_factory=Stopwatch)
    """Stopwatch for the silence since `heard`."""


class Run:
    """Runner of the episodes without a verdict in the records.

    Args:
        plan: Plan of the run.
        records: Records of the run.
        pool: Pool of workers.
        told: Callback for every new record.
        said: Callback for a sentence about the loss or replacement of a worker.
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
        tried = records.done.__contains__  # untried episodes come first, because they show whether anything works
        jobs = [Job(*key) for key in sorted(filter(records.open, asked(plan)), key=tried)]
        self._ledger = Ledger(jobs, reruns=plan.retries)
        self._workers = {number: _State() for number in range(min(plan.processes, max(1, len(jobs))))}
        self._accounts = Accounts(records.done)
        self._health = Health({job.env_id for job in jobs}, records.worked, records.broken)
        self._lost: Counter[int] = Counter()
        """Number of times that each episode's worker was lost during an agent query, by request number."""
        self._unsure: list[dict[str, Any]] = []
        """Records held back until an attempt has worked, because they may only show that nothing works."""
        self._limits = RunLimits(plan)
        self._stopping = ""
        self._raised: int | None = 0
        self.began: float | None = None
        """Monotonic time at which the first worker was ready; None before."""

    def work(self) -> str:
        """Run all episodes, or until a limit is reached; return the limit as a sentence, else an empty string.

        Raises:
            RunError: The agent can't be made or raises in every episode, nothing works, workers die before they begin,
                or a
                limit can't be enforced.
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
                # checked again, because running episodes use tokens and money
                self._stopping = self._stopping or self._limits.reached
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
        """Assign a worker twice the episodes that it plays at once, so that no slot is idle.

        If usage is limited, it is assigned only as many as it plays.
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
            if not state.held:  # the silence of an idle worker doesn't count
                state.heard, state.silent = time.monotonic(), Stopwatch()
            state.held[ask.number] = ask
            self._pool.send(number, ("run", ask))

    def _ended(self, ask: EpisodeRequest, result: Result, record: dict[str, Any] | None = None) -> None:
        ill = self._health.add(ask, result)
        if result.masked:
            self._accounts.add(ask, result)
            if result.crashed:
                ask = self._ledger.isolate(ask)
        before = self._ledger.closed
        self._ledger.ended(ask, result)
        self._limits.add(result)
        if self._ledger.closed > before:  # otherwise the episode is run again
            self._record(ask, result, record or record_of(result))
        if ill:
            again = "The same command runs them again." if self._health.alive else "None of these attempts is recorded."
            raise RunError(f"{ill.rstrip('.')}. {again}")
        if self._limits.unknown:
            raise RunError(self._limits.unknown)

    def _record(self, ask: EpisodeRequest, result: Result, record: dict[str, Any]) -> None:
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
        """Write the records that were held back."""
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
        if len(state.acting) == 1:  # the episode to blame is known
            (ask,) = state.acting
            state.held.pop(ask.number, None)
            late = Result(ask.job, str(Outcome.TIMEOUT), trainable=True, detail=detail, attempt=ask.attempt)
            late.seconds = late.agent_seconds = silent
            self._ended(ask, late)
            state.acting, state.begun = [], set()  # the other episodes are not to blame
        self._replace(number, f"a worker sent nothing for {silent:.0f} s")

    def _died(self, number: int, text: str, *, blamed: bool) -> None:
        state = self._workers[number]
        if not state.ready:
            state.deaths += 1
            if state.deaths >= STARTS:
                raise RunError(f"Workers die before they begin: {text}. See their output above.")
        self._replace(number, text, blamed=blamed)

    def _replace(self, number: int, why: str, *, blamed: bool = True) -> None:
        """Requeue a lost worker's episodes, report the loss, and start a replacement."""
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
        """Requeue the episodes of a lost worker.

        Episodes that may have caused the loss are played alone from then on. An episode that was alone already was the
        cause, which counts as one of its attempts. If the agent was being queried in each of these attempts, the
        failure is the agent's, unless the loss is not to be `blamed` on the worker's process.
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
    """Return the episodes of a plan in the order in which a new run plays them.

    Each task's first seed comes first, so that broken tasks show early; then the seeds of a task follow each other, so
    that its environments are reused.
    """
    tasks, (first, *others) = [str(task["id"]) for task in plan.tasks], plan.seeds
    return [*((task, first) for task in tasks), *((task, seed) for task in tasks for seed in others)]


def _key(ask: EpisodeRequest) -> Key:
    return ask.job.env_id, ask.job.seed
