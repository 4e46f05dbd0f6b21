"""Batches of episodes from a Ray cluster, played while the trainer works.

Browser workers and policy workers are actors. A thread of this process distributes episodes and receives results. When
a worker is lost, alone or with its node, another replaces it, and its episodes are run again or masked.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from selfsurf.agents.play.job import EpisodeRequest, Job
from selfsurf.agents.play.ledger import Ledger
from selfsurf.browser_env.classes import load_class
from selfsurf.browser_env.environment.env_options import Program
from selfsurf.browser_env.patience import Stopwatch
from selfsurf.envs_registry.loading import sources_of
from selfsurf.sdft.rollouts.generator import Batch, RolloutError, RolloutStats, Weights
from selfsurf.sdft.rollouts.models import ModelMaker
from selfsurf.sdft.rollouts.ray_browser import SLACK, BrowserWorker, Hangs, Setup
from selfsurf.sdft.rollouts.ray_cluster import get_patiently, reason_of
from selfsurf.sdft.rollouts.ray_policy import PolicyWorker

STARTS = 3
"""Maximum number of consecutive failed starts of a worker."""

WATCH = 1.0
"""Seconds between two checks of the policy workers."""

PENDING = 10.0
"""Seconds after which a still missing replacement of a browser worker is reported."""

log = logging.getLogger(__name__)


@dataclass
class _Browser:
    """State of a browser worker."""

    actor: Any
    ready: Any
    """Ray reference that resolves when the worker has started; None afterwards."""
    since: float
    """Time at which the start was requested."""
    deaths: int = 0
    """Number of consecutive failed starts of the worker."""
    replaces: bool = False
    """Whether the worker replaces a lost one."""
    told: bool = False
    """Whether the pending start has been reported."""
    held: int = 0
    """Number of episodes that the worker runs."""
    looked: Any = None
    """Ray reference of the current health check, made because an episode is late; None without a check."""
    looked_at: float = 0.0
    """Start time of the health check."""


@dataclass
class _Policy:
    """State of a policy worker."""

    actor: Any
    number: int
    looked: Any = None
    """Ray reference of the current health check; None without a check."""
    since: float = 0.0
    """Start time of the current health check, or end time of the last one."""
    pid: int | None = None
    """Process id of the worker at the last check; None while the worker is lost."""
    lost: bool = False


@dataclass
class _Flight:
    """A running attempt at an episode."""

    browser: int
    ledger: Ledger
    ask: EpisodeRequest
    since: float


@dataclass
class _Order:
    """A requested batch."""

    ledger: Ledger
    weights: list[Any]
    """List with the Ray reference of the weights: Ray resolves references that are arguments, but not those in lists.
    """
    sources: list[Any]
    """List with the Ray reference of the source code of the user's own tasks."""
    begun: float | None = None
    ended: float | None = None


class RayGenerator:
    """Generator of batches on the connected Ray cluster (`sdft.rollouts.ray_cluster`). A context manager.

    Args:
        setup: configuration of the browser workers.
        model: factory of the model in each policy worker.

    Raises:
        RolloutError: the cluster has too few resources, or workers don't start.
    """

    def __init__(self, setup: Setup, model: ModelMaker) -> None:
        import ray

        self._ray = ray
        self._setup = setup
        self._layout = layout = setup.layout
        user = setup.env_options.get("user")
        self._own = [load_class(user.name)] if isinstance(user, Program) else []
        self.ahead: int = layout.ahead
        lacking = layout.missing(ray.cluster_resources())
        if lacking:
            raise RolloutError(
                f"The cluster has too few resources for these workers ({lacking}). Start fewer workers, request fewer "
                "resources for each, or add nodes."
            )
        callers, most = -(-layout.workers // layout.policy_workers), setup.play_options.most
        policy = ray.remote(
            max_restarts=-1, max_task_retries=0, max_concurrency=layout.workers + 8, **layout.policy.options()
        )(PolicyWorker)
        self._policies = [
            _Policy(policy.remote(model, callers, most, layout.call_timeout, verbose=setup.verbose), number)
            for number in range(layout.policy_workers)
        ]
        self._browser = ray.remote(
            max_restarts=0, max_task_retries=0, max_concurrency=layout.contexts + 8, **layout.browser.options()
        )(BrowserWorker)
        try:
            abouts = get_patiently([one.actor.about.remote() for one in self._policies], layout.start_timeout)
            for one, state in zip(self._policies, self.policy_states(), strict=True):
                one.pid = state.pid
        except ray.exceptions.RayError as error:
            self._kill(self._policies)
            raise RolloutError(f"The policy workers did not start: {reason_of(error)}") from error
        self._about = ray.put(abouts[0])
        self._clock = Stopwatch()
        """Clock of all timeouts, adjusted for a busy CPU. Reported times use the wall clock instead."""
        self._lock = threading.Condition()
        self._browsers: dict[int, _Browser] = {}
        self._pids: dict[int, int] = {}
        self._flights: dict[Any, _Flight] = {}
        self._orders: dict[int, _Order] = {}
        self._version: int | None = None
        self._weights: list[Any] = []
        self._sources: dict[frozenset[str], list[Any]] = {}
        self._failure: RolloutError | None = None
        self._closing = False
        self._books = RolloutStats()
        self._told_lost = 0
        for number in range(layout.workers):
            self._start(number)
        self._thread = threading.Thread(target=self._drive, name="rollouts", daemon=True)
        self._thread.start()

    def __enter__(self) -> RayGenerator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all workers and the processes that they started."""
        with self._lock:
            self._closing = True
            self._lock.notify_all()
        self._thread.join(30)
        endings = [one.actor.close.remote() for one in self._browsers.values() if one.ready is None]
        if endings:
            self._ray.wait(endings, num_returns=len(endings), timeout=30)
        self._kill([*self._browsers.values(), *self._policies])

    @property
    def books(self) -> RolloutStats:
        """Statistics of episodes and workers so far."""
        with self._lock:
            return replace(self._books, processes=dict(self._pids))

    def publish(self, version: int, weights: Weights) -> None:
        """Put the tensors into the object store once, from which policy workers pull them."""
        from safetensors.torch import save

        if version == self._version:
            return
        data = save({name: tensor.contiguous() for name, tensor in weights().items()})
        self._weights = [self._ray.put(data)]
        self._version = version
        with self._lock:
            self._note(weights_put=self._books.weights_put + 1, weight_bytes=len(data))

    def request(self, number: int, jobs: Sequence[Job], seed: int) -> None:
        """Start a batch immediately, with the most recently published weights."""
        if self._version is None:
            raise RolloutError("Publish weights before requesting a batch.")
        sources = self._sources_of(frozenset(job.env_id for job in jobs))
        with self._lock:
            self._orders[number] = _Order(Ledger(jobs, seed=seed, version=self._version), self._weights, sources)
            self._lock.notify_all()

    def _sources_of(self, tasks: frozenset[str]) -> list[Any]:
        if tasks not in self._sources:
            self._sources[tasks] = [self._ray.put(sources_of(tasks, *self._own))]
        return self._sources[tasks]

    def collect(self, number: int) -> Batch:
        """Wait for a batch and return it, after checking its tally."""
        start = time.monotonic()
        with self._lock:
            order = self._orders[number]
            while not order.ledger.done and self._failure is None:
                self._lock.wait(0.5)
            if not order.ledger.done and self._failure is not None:
                raise self._failure
            del self._orders[number]
            tally = order.ledger.tally()
            self._note(tally=self._books.tally + tally)
            lost, self._told_lost = self._books.lost - self._told_lost, self._books.lost
        now = time.monotonic()
        seconds = (order.ended or now) - (order.begun or start)
        return Batch(order.ledger.results(), tally, seconds, waited=now - start, workers_lost=lost)

    def forget(self, number: int) -> None:
        """Drop a batch. Its running episodes end in their workers, and their results are discarded."""
        with self._lock:
            del self._orders[number]

    def browser_times(self) -> list[Any]:
        """Return the time of each browser worker by activity (`agents.play.options.PlayerTimes`)."""
        with self._lock:
            actors = [one.actor for one in self._browsers.values() if one.ready is None]
        times: list[Any] = self._ray.get([actor.times.remote() for actor in actors], timeout=60)
        return times

    def wait_ready(self) -> None:
        """Wait until all browser workers have started.

        Raises:
            RolloutError: the workers don't start.
        """
        with self._lock:
            while self._failure is None and len(self._pids) < self._layout.workers:
                self._lock.wait(0.2)
            if self._failure is not None:
                raise self._failure

    def policy_states(self) -> list[Any]:
        """Return the states of the policy workers (`sdft.rollouts.ray_policy.State`)."""
        states: list[Any] = self._ray.get([one.actor.state.remote() for one in self._policies], timeout=60)
        return states

    def _drive(self) -> None:
        """Distribute episodes and receive results until closed."""
        try:
            while not self._closing:
                with self._lock:
                    self._feed()
                    waiting = [*self._flights, *(one.ready for one in self._browsers.values() if one.ready is not None)]
                    if not waiting:
                        self._lock.wait(0.2)
                if waiting:
                    ready, _ = self._ray.wait(waiting, num_returns=1, timeout=0.2)
                    if ready:  # get everything else that is ready, too
                        ready, _ = self._ray.wait(waiting, num_returns=len(waiting), timeout=0)
                    for reference in ready:
                        self._came(reference)
                self._watch_browsers()
                self._watch_policies()
                with self._lock:
                    self._note(driver_seconds=time.thread_time())
        except RolloutError as error:
            self._fail(error)
        except Exception as error:
            log.exception("rollouts have failed")
            self._fail(RolloutError(f"Rollouts have failed: {type(error).__name__}: {error}"))

    def _feed(self) -> None:
        """Give episodes to workers with free contexts, the least busy first, batches in order."""
        for number in sorted(self._orders):
            order = self._orders[number]
            while order.ledger.waiting:
                free = [
                    (one.held, name)
                    for name, one in self._browsers.items()
                    if one.ready is None and one.held < self._layout.contexts
                ]
                if not free:
                    return
                ask = order.ledger.next()
                assert ask is not None
                _, name = min(free)
                browser = self._browsers[name]
                order.begun = order.begun or time.monotonic()
                reference = browser.actor.play.remote(ask, order.weights, order.sources)
                browser.held += 1
                self._flights[reference] = _Flight(name, order.ledger, ask, self._clock.look())

    def _came(self, reference: Any) -> None:
        """Handle a finished reference: a worker is ready, an episode has ended, or a worker is lost."""
        starting = next((name for name, one in self._browsers.items() if one.ready is reference), None)
        errors = self._ray.exceptions
        if starting is not None:
            try:
                pid = self._ray.get(reference, timeout=10)
            except errors.RayError as error:
                self._replace(starting, reason_of(error))
                return
            with self._lock:
                browser = self._browsers[starting]
                browser.ready, browser.deaths = None, 0
                self._pids[starting] = pid
                self._note(browsers_replaced=self._books.browsers_replaced + browser.replaces)
            if browser.replaces:
                log.warning("browser worker %d has been replaced by process %d", starting, pid)
            return
        flight = self._flights.get(reference)
        if flight is None:  # the worker has been replaced
            return
        try:
            result = self._ray.get(reference, timeout=60)
        except errors.RayTaskError as error:
            if isinstance(error.cause, Hangs):
                self._replace(flight.browser, str(error.cause))
                return
            raise RolloutError(f"An episode could not be run: {reason_of(error)}") from error
        except errors.RayActorError as error:
            self._replace(flight.browser, reason_of(error))
            return
        except errors.RayError as error:  # the result was lost with its node
            self._land(reference)
            with self._lock:
                flight.ledger.lost(flight.ask, reason_of(error))
            return
        self._land(reference)
        with self._lock:
            flight.ledger.ended(flight.ask, result)
            self._note_ends()

    def _land(self, reference: Any) -> None:
        flight = self._flights.pop(reference)
        self._browsers[flight.browser].held -= 1

    def _note_ends(self) -> None:
        for order in self._orders.values():
            if order.ledger.done and order.ended is None:
                order.ended = time.monotonic()
                self._lock.notify_all()

    def _start(self, number: int, deaths: int = 0, *, replaces: bool = False) -> None:
        actor = self._browser.remote(self._setup, [one.actor for one in self._policies], number, self._about)
        self._browsers[number] = _Browser(actor, actor.ready.remote(), self._clock.look(), deaths, replaces)

    def _replace(self, number: int, why: str) -> None:
        """Start a replacement for a lost worker; its episodes are run again or masked.

        Raises:
            RolloutError: workers die before they are ready.
        """
        old = self._browsers[number]
        deaths = old.deaths + (old.ready is not None)
        log.warning(
            "browser worker %d is lost (%s): its %d episodes run again, and a replacement is pending", number, why,
            old.held,
        )  # fmt: skip
        self._kill([old])
        with self._lock:
            for reference, flight in list(self._flights.items()):
                if flight.browser == number:
                    del self._flights[reference]
                    flight.ledger.lost(flight.ask, why)
            self._note_ends()
            self._note(browsers_lost=self._books.browsers_lost + 1)
            self._pids.pop(number, None)
        if deaths >= STARTS:
            raise RolloutError(f"Browser workers die before they are ready: {why}")
        self._start(number, deaths, replaces=True)

    def _watch_browsers(self) -> None:
        """Replace hung workers; raise RolloutError if none can be started."""
        now = self._clock.look()
        limit = self._layout.episode_timeout + SLACK
        for number in {flight.browser for flight in self._flights.values() if now - flight.since > limit}:
            if not self._answers(self._browsers[number], now):  # otherwise the worker ends it itself
                self._replace(number, "it does not answer")
        for number, one in self._browsers.items():
            if one.ready is not None and one.replaces and not one.told and now - one.since > PENDING:
                one.told = True
                log.warning(
                    "browser worker %d is still pending after %.0f s: it starts once the cluster has room for it (%s)",
                    number, now - one.since, self._layout.browser.total(1),
                )  # fmt: skip
        starting = [one for one in self._browsers.values() if one.ready is not None]
        late = [one for one in starting if now - one.since > self._layout.start_timeout]
        if late and len(starting) == len(self._browsers):
            raise RolloutError(
                f"No browser worker started within {self._layout.start_timeout:g} s: the cluster has no room left for "
                f"one ({self._layout.browser.total(1)})."
            )

    def _answers(self, browser: _Browser, now: float) -> bool:
        """Whether a worker answers within `SLACK`."""
        if browser.looked is None:
            browser.looked, browser.looked_at = browser.actor.ready.remote(), now
        elif now - browser.looked_at > SLACK:
            answered, _ = self._ray.wait([browser.looked], timeout=0)
            browser.looked = None
            return bool(answered)
        return True

    def _watch_policies(self) -> None:
        """Restart hung policy workers. Ray itself restarts dead ones, under the same handle."""
        now = self._clock.look()
        for one in self._policies:
            if one.looked is None:
                if now - one.since > WATCH:
                    one.looked, one.since = one.actor.state.remote(), now
                continue
            ready, _ = self._ray.wait([one.looked], timeout=0)
            if ready:
                looked, one.looked, one.since = one.looked, None, now
                try:
                    state = self._ray.get(looked, timeout=10)
                except self._ray.exceptions.RayError as error:
                    self._policy_lost(one, reason_of(error))
                    continue
                self._policy_seen(one, state.pid)
                if state.busy > self._layout.call_timeout:
                    self._restart(one, f"a call has taken {state.busy:.0f} s")
            elif now - one.since > self._layout.start_timeout:
                one.looked, one.since = None, now
                self._restart(one, "it does not answer")

    def _policy_seen(self, policy: _Policy, pid: int) -> None:
        """Record that a policy worker answers, and whether its process has changed."""
        if policy.pid not in (None, pid):
            self._policy_lost(policy, f"process {policy.pid} has ended")
        policy.pid = pid
        if policy.lost:
            policy.lost = False
            log.warning("policy worker %d has been replaced by process %d", policy.number, pid)
            with self._lock:
                self._note(policies_replaced=self._books.policies_replaced + 1)

    def _policy_lost(self, policy: _Policy, why: str) -> None:
        """Count a lost policy worker once."""
        if policy.lost:
            return
        policy.lost, policy.pid = True, None
        log.warning("policy worker %d is lost (%s): its calls repeat, and a replacement is pending", policy.number, why)
        with self._lock:
            self._note(policies_lost=self._books.policies_lost + 1)

    def _restart(self, policy: _Policy, why: str) -> None:
        self._ray.kill(policy.actor, no_restart=False)
        self._policy_lost(policy, why)

    def _note(self, **changes: Any) -> None:
        self._books = replace(self._books, **changes)

    def _fail(self, error: RolloutError) -> None:
        with self._lock:
            self._failure = error
            self._lock.notify_all()

    def _kill(self, workers: Sequence[_Browser | _Policy]) -> None:
        for worker in workers:
            with contextlib.suppress(Exception):  # the worker may be gone already
                self._ray.kill(worker.actor)
