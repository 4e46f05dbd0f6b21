"""Runs episodes side by side, each at its own pace, with one agent for all of them.

Resets and steps go on in the background; the agent is asked, in the caller's thread, for those episodes that wait for
it. So a slow page delays its own episode only.
"""

from __future__ import annotations

import asyncio
import queue
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from selfsurf.agents.llm_agent import LLMAgent
from selfsurf.agents.play.episodes import Chosen, Running, choose, taken
from selfsurf.agents.play.gather import Gather
from selfsurf.agents.play.record import versions
from selfsurf.agents.policy import PolicyError
from selfsurf.browser_env import EnvError, Outcome
from selfsurf.browser_env.actions import parse_action
from selfsurf.browser_env.record.episode import EpisodeWriter
from selfsurf.browser_env.session.runtime import runtime
from selfsurf.sdft.rollouts.environments import Environments
from selfsurf.sdft.rollouts.episode import Ask, Result, Step

EPISODE_TIMEOUT = 600.0
"""Seconds that an episode may take in a worker."""

CALL_TIMEOUT = 240.0
"""Seconds that a reset or a step may take. Environments have deadlines of their own, which end far earlier; this is
for when those fail."""

FIRST_CALL = 0.5
"""Seconds that the first call of the agent is thought to take."""

Ended: TypeAlias = tuple[Ask, Result]


@dataclass(frozen=True)
class Manner:
    """How episodes are run."""

    demonstrate: bool = False
    """Show the agent the oracle's next action at every step."""
    folder: Path | None = None
    """Write the episodes here, one folder each, or nowhere."""
    meta: dict[str, Any] = field(default_factory=dict)
    """Goes into every `episode.json`."""
    most: int | None = None
    """Most episodes that the agent is asked for at once. With 1, what is sampled is the same to the last bit whatever
    runs beside it; else batches of another size may change last bits."""
    episode_timeout: float = EPISODE_TIMEOUT
    """Seconds that an episode may take, waiting for the agent included."""
    lead: float = 0.0
    """Probability with which the oracle takes an episode's first step, and each further one after a step of its own:
    the agent goes on from there. Where there is no oracle the agent begins."""


@dataclass
class Times:
    """What an engine's time went into, summed over its episodes, which went on at the same time."""

    episodes: int = 0
    steps: int = 0
    env_seconds: float = 0.0
    """In resets and steps."""
    agent_seconds: float = 0.0
    """From when an observation was there until its action was."""


@dataclass
class _Live:
    """An episode under way."""

    ask: Ask
    running: Running
    result: Result
    begun: float
    since: float
    """When it began to do what it does."""
    work: Future[Any] | None = None
    """What it waits for: a reset or a step. Without, it waits for the agent."""
    chosen: Chosen | None = None


class Engine:
    """Runs episodes.

    Args:
        agent: acts in all of them.
        environments: where they take place.
        slots: most episodes at the same time.
        manner: how they are run.
        prepare: called with the version of the weights that are to act, before the agent is asked.
    """

    def __init__(
        self,
        agent: LLMAgent,
        environments: Environments,
        slots: int,
        manner: Manner,
        prepare: Callable[[int], None] | None = None,
    ) -> None:
        self._agent = agent
        self._environments = environments
        self._manner = manner
        self._prepare = prepare
        self._free = list(range(slots))[::-1]
        self._live: dict[int, _Live] = {}
        self._events: queue.SimpleQueue[tuple[int, Future[Any]] | None] = queue.SimpleQueue()
        self._gather = Gather(first=FIRST_CALL)
        self._ended: list[Ended] = []
        self.times = Times()

    @property
    def has_room(self) -> bool:
        """Whether another episode can begin."""
        return bool(self._free)

    def wake(self) -> None:
        """Make a `turn` that waits return; from any thread."""
        self._events.put(None)

    def begin(self, ask: Ask) -> None:
        """Begin an episode; there must be room."""
        slot = self._free.pop()
        now = time.monotonic()
        result = Result(ask.job, str(Outcome.RUNNING), trainable=True, version=ask.version)
        env = self._environments.take(ask.job.env_id)
        nothing: Any = None
        live = self._live[slot] = _Live(ask, Running(slot, env, nothing, None), result, now, now)
        self._start(live, env.reset(seed=ask.job.seed))

    def turn(self, patience: float = 0.5) -> list[Ended]:
        """Let the episodes go on for a moment, at most `patience` seconds if nothing happens; return what has ended.

        Raises:
            Exception: the agent's own, if it is none that a policy raises for its backend.
        """
        ready = self._ready()
        if ready and self._may_grow(ready):
            patience = min(patience, self._gather.left([live.since for live in ready]))
        elif ready:
            patience = 0
        self._hear(patience)
        self._give_up_late()
        ready = self._ready()
        if self._gather.due([live.since for live in ready], moving=self._may_grow(ready)):
            self._act(ready)
        ended, self._ended = self._ended, []
        return ended

    def close(self) -> None:
        """Give up what is under way."""
        for live in list(self._live.values()):
            if live.work is not None:
                live.work.cancel()
            self._end(live, Outcome.ENV_ERROR, trainable=False, detail="the rollouts were ended")
        self._ended.clear()

    def _ready(self) -> list[_Live]:
        return [live for live in self._live.values() if live.work is None]

    def _may_grow(self, ready: list[_Live]) -> bool:
        """Whether others may join those that wait for the agent, in the same call."""
        return len(ready) < len(self._live) and (self._manner.most is None or len(ready) < self._manner.most)

    def _start(self, live: _Live, work: Coroutine[Any, Any, Any]) -> None:
        live.since = time.monotonic()
        future = live.work = asyncio.run_coroutine_threadsafe(work, runtime().loop)
        slot = live.running.slot
        future.add_done_callback(lambda done: self._events.put((slot, done)))

    def _hear(self, patience: float) -> None:
        """Take what has come; wait for the first of it."""
        try:
            event = self._events.get(timeout=patience) if patience > 0 else self._events.get_nowait()
            while True:
                if event is not None:
                    slot, future = event
                    live = self._live.get(slot)
                    if live is not None and live.work is future:  # else it was given up
                        live.work = None
                        self._arrived(live, future)
                event = self._events.get_nowait()
        except queue.Empty:
            return

    def _arrived(self, live: _Live, future: Future[Any]) -> None:
        """A reset or a step has come back."""
        now = time.monotonic()
        self.times.env_seconds += now - live.since
        live.since = now
        error = future.exception()
        if error is not None:
            detail = str(error) if isinstance(error, EnvError) else f"{type(error).__name__}: {error}"
            self._end(live, Outcome.ENV_ERROR, trainable=False, detail=detail)
        elif live.chosen is None:
            self._opened(live, future.result()[0])
        else:
            self._stepped(live, live.chosen, future.result())

    def _opened(self, live: _Live, observation: Any) -> None:
        running, ask = live.running, live.ask
        running.observation = observation
        self._agent.reset(observation["goal"], slot=running.slot)
        if self._manner.folder is not None:
            name = f"{ask.job.env_id.replace('/', '_')}_{ask.job.seed}"
            name += f"_retry{ask.attempt}" if ask.attempt else ""
            about = {"episode_id": name, "env_id": ask.job.env_id, "seed": ask.job.seed, "goal": observation["goal"]}
            running.writer = EpisodeWriter(
                self._manner.folder / name, {**about, "versions": versions(), **self._manner.meta}
            )
        self._lead(live)

    def _lead(self, live: _Live) -> None:
        """Take the oracle's step, if it is the oracle's turn and it knows one."""
        running, result = live.running, live.result
        oracles_turn = len(result.steps) == result.led < live.ask.led(self._manner.lead)
        told = running.env.privileged() if oracles_turn else None
        if told is None:
            return
        result.led += 1
        action = parse_action(told["action"])
        live.chosen = Chosen(action, self._agent.follow(running.observation, action, running.slot), told)
        self._start(live, running.env.step(action))

    def _act(self, ready: list[_Live]) -> None:
        """Ask the agent for the episodes that have waited longest and share a version of the weights."""
        ready.sort(key=lambda live: live.since)
        acting = [live for live in ready if live.ask.version == ready[0].ask.version][: self._manner.most]
        seeds = None
        if acting[0].ask.seed is not None:
            seeds = [live.ask.step_seed(len(live.result.steps)) for live in acting]
        try:
            with self._gather.call():
                if self._prepare is not None:
                    self._prepare(acting[0].ask.version)
                chosen = choose(
                    self._agent, [live.running for live in acting], demonstrate=self._manner.demonstrate, seeds=seeds
                )
        except PolicyError as error:  # nobody has acted: what failed is the model's server, not these episodes' agent
            for live in acting:
                self._end(live, Outcome.ENV_ERROR, trainable=False, detail=str(error))
            return
        for live, each in zip(acting, chosen, strict=True):
            live.chosen = each
            self.times.steps += 1
            self.times.agent_seconds += time.monotonic() - live.since
            self._start(live, live.running.env.step(each.action))

    def _stepped(self, live: _Live, chosen: Chosen, step: Any) -> None:
        done = taken(live.running, chosen, step)
        live.chosen = None
        result = live.result
        assert done.decision is not None
        result.steps.append(
            Step(done.observation, done.decision, done.privileged, done.reward, done.after["last_error"], done.after)
        )
        result.reward += done.reward
        result.score = done.info["score"]
        if done.ended:
            info = done.info
            self._end(live, info["outcome"], trainable=info["trainable"], detail=info["outcome_detail"])
        else:
            self._lead(live)

    def _give_up_late(self) -> None:
        now = time.monotonic()
        for live in list(self._live.values()):
            if live.work is not None and now - live.since > CALL_TIMEOUT:
                live.work.cancel()
                detail = f"the environment did not answer within {CALL_TIMEOUT:g} s"
                self._end(live, Outcome.ENV_ERROR, trainable=False, detail=detail)
            elif live.work is None and now - live.begun > self._manner.episode_timeout:
                detail = f"not done in {self._manner.episode_timeout:g} s"
                self._end(live, Outcome.ENV_ERROR, trainable=False, detail=detail)

    def _end(self, live: _Live, outcome: str, *, trainable: bool, detail: str) -> None:
        """Take down how an episode ended, and make room."""
        running, result = live.running, live.result
        result.outcome, result.trainable, result.detail = str(outcome), trainable, detail
        if running.writer is not None:
            running.writer.finish(result.outcome, trainable=trainable, after=running.observation, score=result.score)
        if result.masked:
            self._environments.drop(running.env)
        else:
            self._environments.give_back(live.ask.job.env_id, running.env)
        self.times.episodes += 1
        del self._live[running.slot]
        self._free.append(running.slot)
        self._ended.append((live.ask, result))
