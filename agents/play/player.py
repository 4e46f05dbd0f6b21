"""Plays episodes: the one loop between agents and environments, whoever asks for them.

Each episode is a coroutine on the environments' event loop: reset, and then ask for a decision and step until the end.
The agent is asked in the caller's thread (`Player.turn`), for all episodes that wait for it in one call; what happened
is written there, too. So a slow page delays its own episode only, and a model never runs beside itself.

It knows nothing of where jobs come from or what becomes of results: `Ledger` accounts for them; `selfsurf run` plays
one in this thread, benchmarks play in worker processes, training here or in Ray actors.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import queue
import time
import traceback
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeAlias, TypeVar

from selfsurf.agents.agent import Decision, Privileged, Stop
from selfsurf.agents.play.decide import AgentRaised, Decider, raised
from selfsurf.agents.play.environments import Environments
from selfsurf.agents.play.gather import Gather
from selfsurf.agents.play.job import Ask, Result, Step
from selfsurf.agents.play.record import policy_record
from selfsurf.agents.policy import PolicyError
from selfsurf.browser_env import AsyncBrowserEnv, EnvError, Observation, Outcome, parse_action, runtime
from selfsurf.browser_env.record.episode import EpisodeWriter

T = TypeVar("T")

CALL_TIMEOUT = 240.0
"""Seconds that a reset or a step may take. Environments have deadlines of their own, which end far earlier; this is
for when those fail."""

FIRST_CALL = 0.5
"""Seconds that the first call of the agent is assumed to take."""

CLOSING = 5.0
"""Seconds that episodes which are cut off may take to end."""

Ended: TypeAlias = tuple[Ask, Result]


@dataclass(frozen=True)
class Manner:
    """How episodes are played."""

    demonstrate: bool = False
    """Show the agent the oracle's next action at every step."""
    lead: float = 0.0
    """Probability with which the oracle takes an episode's first step, and each further one after a step of its own:
    the agent goes on from there. Where there is no oracle the agent begins."""
    most: int | None = None
    """Most episodes that the agent is asked for in one call. With 1, what is sampled is the same to the last bit
    whatever is played beside it; else batches of another size may change last bits."""
    episode_timeout: float = math.inf
    """Seconds that an episode may take, waiting for the agent included."""
    slow_agent: Literal[Outcome.TIMEOUT, Outcome.ENV_ERROR] = Outcome.ENV_ERROR
    """What an episode is that ran out of time in the agent: its failure, or that of the machine that its model is on.
    One that ran out of time in the environment is `env_error`."""
    agent_errors: Literal["raise", "fail"] = "raise"
    """What happens when the agent's own code raises: `turn` raises that, or the episode counts as failed."""
    keep_steps: bool = True
    """Keep all steps in the result, rather than its totals only."""


class Watch:
    """Is told what happens, in the caller's thread. Override what is of interest."""

    def begun(self, ask: Ask) -> None:
        """An episode begins."""

    def opened(self, ask: Ask, observation: Observation) -> None:
        """Its page is there."""

    def acting(self, asks: Sequence[Ask]) -> None:
        """The agent is asked for these episodes."""

    def acted(self) -> None:
        """The agent has answered, or failed."""

    def stepped(self, ask: Ask, step: Step) -> None:
        """A step has been made."""


@dataclass
class Times:
    """What a player's time went into, summed over its episodes, which went on at the same time."""

    episodes: int = 0
    steps: int = 0
    env_seconds: float = 0.0
    """In resets and steps."""
    agent_seconds: float = 0.0
    """From when an observation was there until its action was."""


class _Over(Exception):
    """An episode ends here."""

    def __init__(self, outcome: Outcome, detail: str, *, trainable: bool = False, trace: str = "") -> None:
        super().__init__(detail)
        self.outcome, self.detail, self.trainable, self.trace = outcome, detail, trainable, trace


@dataclass(eq=False)
class _Live:
    """An episode under way."""

    ask: Ask
    slot: int
    result: Result
    writer: EpisodeWriter | None
    begun: float = field(default_factory=time.monotonic)
    env: AsyncBrowserEnv | None = None
    observation: Observation | None = None
    """The latest."""
    work: Future[None] | None = None
    task: asyncio.Task[Any] | None = None


@dataclass(eq=False)
class _Request:
    """An episode waits for the agent."""

    live: _Live
    observation: Observation
    answer: asyncio.Future[tuple[Decision, Privileged | None]]
    told: Privileged | None = None
    """What the task's oracle would do."""
    since: float = field(default_factory=time.monotonic)
    began: float = field(default_factory=time.time)


class Player:
    """Plays episodes.

    Args:
        agent: decides in all of them.
        environments: where they take place.
        slots: most episodes at the same time.
        manner: how they are played.
        prepare: called with the version of the weights that are to act, before the agent is asked.
        record: opens what an episode is written with; None: it isn't.
        watch: is told what happens.
        at_end: awaited when an episode has ended, with its environment still as it was.
    """

    def __init__(
        self,
        agent: Decider,
        environments: Environments,
        slots: int,
        manner: Manner,
        *,
        prepare: Callable[[int], None] = lambda version: None,
        record: Callable[[Ask], EpisodeWriter | None] = lambda ask: None,
        watch: Watch | None = None,
        at_end: Callable[[Ask, Result, AsyncBrowserEnv], Awaitable[None]] | None = None,
    ) -> None:
        self._agent = agent
        self._environments = environments
        self._manner = manner
        self._prepare = prepare
        self._record = record
        self._watch = watch or Watch()
        self._at_end = at_end
        self._free = list(range(slots))[::-1]
        self._live: dict[int, _Live] = {}
        self._waiting: list[_Request] = []
        self._events: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._gather = Gather(first=FIRST_CALL)
        self._ended: list[Ended] = []
        self.times = Times()

    @property
    def has_room(self) -> bool:
        """Whether another episode can begin."""
        return bool(self._free)

    @property
    def idle(self) -> bool:
        """Whether nothing is under way."""
        return not self._live

    def wake(self) -> None:
        """Make a `turn` that waits return; from any thread."""
        self._events.put(None)

    def begin(self, ask: Ask) -> None:
        """Begin an episode; there must be room."""
        result = Result(ask.job, str(Outcome.RUNNING), trainable=True, version=ask.version, attempt=ask.attempt)
        live = _Live(ask, self._free.pop(), result, self._record(ask))
        self._live[live.slot] = live
        self._watch.begun(ask)
        live.work = asyncio.run_coroutine_threadsafe(self._play(live), runtime().loop)
        live.work.add_done_callback(lambda work: self._events.put(partial(self._finish, live)))

    def turn(self, patience: float = 0.5) -> list[Ended]:
        """Let the episodes go on for a moment, at most `patience` seconds if nothing happens; return what has ended.

        Raises:
            Exception: the agent's own (`Manner.agent_errors`), or an episode can't be written.
        """
        if self._waiting and self._may_grow():
            patience = min(patience, self._gather.left([one.since for one in self._waiting]))
        elif self._waiting:
            patience = 0
        self._handle_events(patience)
        self._end_late()
        if self._gather.due([one.since for one in self._waiting], moving=self._may_grow()):
            self._act()
        ended, self._ended = self._ended, []
        return ended

    def close(self, outcome: Outcome = Outcome.ENV_ERROR, detail: str = "the rollouts were ended") -> list[Ended]:
        """Cut off what is under way, as ended in this way, and return it."""
        self._waiting.clear()
        cut = list(self._live.values())
        with contextlib.suppress(EnvError):  # the loop has ended, and they with it
            runtime().run(_cancel([live.task for live in cut if live.task is not None]))
        for live in cut:
            if live.work is None or live.work.cancelled() or not live.work.done():
                live.result.end(outcome, trainable=False, detail=detail)
        self._handle_events(0)
        for live in list(self._live.values()):
            self._finish(live)
        ended, self._ended = self._ended, []
        return ended

    async def _play(self, live: _Live) -> None:
        """Play an episode, on the environments' loop."""
        result, job = live.result, live.ask.job
        live.task = asyncio.current_task()
        try:
            await self._play_steps(live)
        except _Over as over:
            result.end(over.outcome, trainable=over.trainable, detail=over.detail)
            result.traceback = over.trace
        if live.env is None:
            return
        if self._at_end is not None:
            await self._at_end(live.ask, result, live.env)
        if not result.masked:
            env, live.env = live.env, None
            await self._environments.give_back(job.env_id, env)

    async def _play_steps(self, live: _Live) -> None:
        result, job = live.result, live.ask.job
        live.env = env = await self._in_time(live, self._environments.take(job.env_id))
        observation, _ = await self._in_time(live, env.reset(seed=job.seed))
        live.observation = observation
        self._events.put(partial(self._opened, live, observation))
        ended = False
        while not ended:
            request = _Request(live, observation, asyncio.get_running_loop().create_future())
            self._events.put(partial(self._asked, request))
            decision, told = await request.answer
            after, reward, terminated, truncated, info = await self._in_time(live, env.step(decision.action))
            step = Step(observation, decision, told, reward, info, after, request.began)
            live.observation = observation = after
            result.add(step, keep=self._manner.keep_steps)
            self._events.put(partial(self._stepped, live, step))
            ended = terminated or truncated
        result.end(info["outcome"], trainable=info["trainable"], detail=info["outcome_detail"])

    async def _in_time(self, live: _Live, work: Awaitable[T]) -> T:
        """Await an environment. Whatever goes wrong in it is its own failure."""
        start = time.monotonic()
        try:
            async with asyncio.timeout(CALL_TIMEOUT) as limit:
                return await work
        except EnvError as error:
            raise _Over(Outcome.ENV_ERROR, str(error)) from error
        except Exception as error:
            detail = f"{type(error).__name__}: {error}"
            if limit.expired():
                detail = f"the environment did not answer within {CALL_TIMEOUT:g} s"
            raise _Over(Outcome.ENV_ERROR, detail, trace="".join(traceback.format_exception(error))) from error
        finally:
            seconds = time.monotonic() - start
            live.result.env_seconds += seconds
            self.times.env_seconds += seconds

    def _handle_events(self, patience: float) -> None:
        """Handle what has happened; wait for the first of it."""
        try:
            event = self._events.get(timeout=patience) if patience > 0 else self._events.get_nowait()
            while True:
                if event is not None:
                    event()
                event = self._events.get_nowait()
        except queue.Empty:
            return

    def _opened(self, live: _Live, observation: Observation) -> None:
        if live.writer is not None:
            live.writer.note(goal=observation["goal"])
        self._watch.opened(live.ask, observation)

    def _asked(self, request: _Request) -> None:
        live = request.live
        try:
            if live.result.length == 0:
                self._agent.begin(live.slot, live.ask.job, request.observation["goal"])
            request.told = self._oracle(live)
        except (Exception, SystemExit) as error:
            if self._manner.agent_errors == "raise":
                raise
            self._blame_agent(request, raised(error))
            return
        if not self._led(request):
            self._waiting.append(request)

    def _oracle(self, live: _Live) -> Privileged | None:
        """What the task's oracle would do. For one that raises, only an agent that follows it is to blame."""
        assert live.env is not None
        try:
            return live.env.privileged()
        except Exception:
            if self._agent.needs_privileged or self._manner.agent_errors == "raise":
                raise
            return None

    def _led(self, request: _Request) -> bool:
        """Let the oracle act, if it is its turn and it knows an action."""
        live, result = request.live, request.live.result
        if not result.length == result.led < live.ask.led(self._manner.lead):
            return False
        if request.told is None:
            return False
        result.led += 1
        action = parse_action(request.told["action"])
        _answer(request, (self._agent.agent.follow(request.observation, action, live.slot), request.told))
        return True

    def _may_grow(self) -> bool:
        """Whether others may join those that wait for the agent, in the same call."""
        count, most = len(self._waiting), self._manner.most
        return count < len(self._live) and (most is None or count < most)

    def _act(self) -> None:
        """Ask the agent for the episodes that have waited longest and share a version of the weights."""
        self._waiting.sort(key=lambda one: one.since)
        version = self._waiting[0].live.ask.version
        acting = [one for one in self._waiting if one.live.ask.version == version][: self._manner.most]
        self._waiting = [one for one in self._waiting if one not in acting]
        shows, seeded = self._manner.demonstrate or self._agent.needs_privileged, acting[0].live.ask.seed is not None
        shown = [one.told for one in acting] if shows else None
        seeds = [one.live.ask.step_seed(one.live.result.length) for one in acting] if seeded else None
        decide = self._agent.decide_each if self._manner.agent_errors == "fail" else self._agent.decide
        slots, observations = [one.live.slot for one in acting], [one.observation for one in acting]
        self._watch.acting([one.live.ask for one in acting])
        try:
            with self._gather.call():
                self._prepare(version)
                answers = decide(slots, observations, privileged=shown, seeds=seeds)
        except (PolicyError, Stop) as error:  # of the former nobody is to blame: the model's server has failed
            outcome = Outcome.STOPPED if isinstance(error, Stop) else Outcome.ENV_ERROR
            for one in acting:
                _answer(one, _Over(outcome, str(error)))
            return
        finally:
            self._watch.acted()
        now = time.monotonic()
        for one, answer in zip(acting, answers, strict=True):
            self.times.agent_seconds += now - one.since
            one.live.result.agent_seconds += self._gather.last_call / len(acting)
            if isinstance(answer, AgentRaised):
                self._blame_agent(one, answer)
            else:
                self.times.steps += 1
                _answer(one, (answer, one.told))

    def _blame_agent(self, request: _Request, error: AgentRaised) -> None:
        request.live.result.agent_raised = True
        _answer(request, _Over(Outcome.FAILED, str(error)))

    def _stepped(self, live: _Live, step: Step) -> None:
        if live.writer is not None:
            decision = step.decision
            live.writer.step(
                step.observation,
                decision.action,
                reward=step.reward,
                info=step.info,
                after=step.after,
                privileged=step.privileged,
                policy=policy_record(decision) if decision.messages else None,
                time=step.time,
            )
        self._watch.stepped(live.ask, step)

    def _end_late(self) -> None:
        """End the episodes that have run out of time while they wait for the agent, and say on whose account."""
        limit, now = self._manner.episode_timeout, time.monotonic()
        for one in list(self._waiting):
            took, result = now - one.live.begun, one.live.result
            if took <= limit:
                continue
            self._waiting.remove(one)
            if result.env_seconds > took / 2:
                detail = f"the environment took {result.env_seconds:.0f} of the {limit:g} s of an episode"
                _answer(one, _Over(Outcome.ENV_ERROR, detail))
            else:
                slow = self._manner.slow_agent
                _answer(one, _Over(slow, f"not done in {limit:g} s", trainable=slow.trainable))

    def _finish(self, live: _Live) -> None:
        """Close an episode that has ended, and make room.

        Raises:
            Exception: an error in this program has ended it.
        """
        if self._live.get(live.slot) is not live:
            return
        del self._live[live.slot]
        self._free.append(live.slot)
        result, work = live.result, live.work
        error = work.exception() if work is not None and work.done() and not work.cancelled() else None
        if error is not None:
            result.end(Outcome.ENV_ERROR, trainable=False, detail=f"{type(error).__name__}: {error}")
        messages = live.observation["messages"] if live.observation else ()
        result.answer = next((one["text"] for one in reversed(messages) if one["role"] == "assistant"), "")
        result.seconds = time.monotonic() - live.begun
        if live.env is not None:
            self._environments.drop(live.env)
        if live.writer is not None:
            if result.traceback:
                live.writer.note(traceback=result.traceback)
            live.writer.finish(
                result.outcome, trainable=result.trainable, after=live.observation, detail=result.detail,
                score=result.score, **result.totals(),
            )  # fmt: skip
        self.times.episodes += 1
        self._ended.append((live.ask, result))
        if error is not None:
            raise error


def _answer(request: _Request, answer: tuple[Decision, Privileged | None] | _Over) -> None:
    """Give an episode what it waits for, or end it; from the caller's thread."""

    def give() -> None:
        if request.answer.done():
            return
        if isinstance(answer, _Over):
            request.answer.set_exception(answer)
        else:
            request.answer.set_result(answer)

    runtime().loop.call_soon_threadsafe(give)


async def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=CLOSING)
