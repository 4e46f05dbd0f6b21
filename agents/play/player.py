"""Plays episodes: the single loop between agents and environments, for all callers.

Each episode is a coroutine on the environments' event loop: reset, then ask for a decision and step until the end. The
agent is asked in the caller's thread (`Player.turn`), for all waiting episodes in one call; records are written there,
too. So a slow page delays only its own episode, and a model never runs concurrently with itself.

The player is independent of the source of jobs and the use of results: `Ledger` accounts for them; `selfsurf run` plays
one episode in its own thread, benchmarks play in worker processes, training here or in Ray actors.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import TypeAlias, TypeVar

from selfsurf.agents.agent import Decision, Privileged, Stop, raise_first
from selfsurf.agents.play.agent_adapter import AgentAdapter, AgentRaised, OracleRaised, raised
from selfsurf.agents.play.batch_window import BatchWindow
from selfsurf.agents.play.environments import Environments
from selfsurf.agents.play.job import EpisodeRequest, Result, Step
from selfsurf.agents.play.options import PlayerCallbacks, PlayerTimes, PlayOptions
from selfsurf.agents.play.queries import answered, gave_up, note_reason
from selfsurf.agents.play.resume_point import AllowedAction, ResumePoint
from selfsurf.agents.play.running import (
    UNKNOWN,
    DecisionRequest,
    EpisodeOver,
    RunningEpisode,
    cancel,
    give_answer,
    settle,
)
from selfsurf.agents.policy import PolicyError
from selfsurf.browser_env import ActionError, AsyncBrowserEnv, EnvError, Observation, Outcome, parse_action, runtime
from selfsurf.browser_env.environment.step_results import StepResult
from selfsurf.browser_env.errors import reason, traceback_of
from selfsurf.browser_env.patience import cpu_share, limited
from selfsurf.browser_env.record.episode import EpisodeWriter
from selfsurf.browser_env.record.format import recorded_action
from selfsurf.browser_env.record.matching import matching
from selfsurf.browser_env.router.logged_env import begin_log
from selfsurf.browser_env.safety.secrets import redact_known
from selfsurf.browser_env.session.files import file_names

_log = logging.getLogger(__name__)

T = TypeVar("T")

CALL_TIMEOUT = 1200.0
"""Timeout of a reset or a step, in seconds. A last resort: environments have much shorter deadlines of their own."""

FIRST_CALL = 0.5
"""Assumed duration of the agent's first call, in seconds."""

Ended: TypeAlias = tuple[EpisodeRequest, Result]


class Player:
    """Plays episodes concurrently with one agent.

    Args:
        agent: decides in all episodes.
        environments: pool of environments.
        slots: maximum number of concurrent episodes.
        options: options.
        prepare: called with the version of the acting weights before the agent is asked.
        record: opens the writer of an episode; returns None for no record.
        watch: callbacks for progress.
        at_end: awaited when an episode has ended, before its environment is reused.
    """

    def __init__(
        self,
        agent: AgentAdapter,
        environments: Environments,
        slots: int,
        options: PlayOptions,
        *,
        prepare: Callable[[int], None] = lambda version: None,
        record: Callable[[EpisodeRequest], EpisodeWriter | None] = lambda ask: None,
        watch: PlayerCallbacks | None = None,
        at_end: Callable[[EpisodeRequest, Result, AsyncBrowserEnv], Awaitable[None]] | None = None,
    ) -> None:
        self._agent = agent
        self._environments = environments
        self._options = options
        self._prepare = prepare
        self._record = record
        self._watch = watch or PlayerCallbacks()
        self._at_end = at_end
        self._free = list(range(slots))[::-1]
        self._live: dict[int, RunningEpisode] = {}
        self._waiting: list[DecisionRequest] = []
        self._events: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._gather = BatchWindow(first=FIRST_CALL)
        self._ended: list[Ended] = []
        self.times = PlayerTimes()

    @property
    def has_room(self) -> bool:
        """Whether another episode can begin."""
        return bool(self._free)

    @property
    def idle(self) -> bool:
        """Whether no episode is running."""
        return not self._live

    def wake(self) -> None:
        """Make a waiting `turn` return; may be called from any thread."""
        self._events.put(None)

    def begin(self, ask: EpisodeRequest, resume_point: ResumePoint | None = None) -> None:
        """Begin an episode, or continue one that another process began; requires a free slot (`has_room`)."""
        result = Result(ask.job, str(Outcome.RUNNING), trainable=True, version=ask.version, attempt=ask.attempt)
        live = RunningEpisode(ask, self._free.pop(), result, self._record(ask), resume_point=resume_point)
        if resume_point is not None:
            result.take_up(resume_point.steps, resume_point.so_far.reward)
        self._live[live.slot] = live
        self._watch.begun(ask)
        live.work = asyncio.run_coroutine_threadsafe(self._play(live), runtime().loop)
        live.work.add_done_callback(lambda work: self._events.put(partial(self._finish, live)))

    def play(self, ask: EpisodeRequest, resume_point: ResumePoint | None = None) -> Result:
        """Play one episode to its end, with no other episode running."""
        self.begin(ask, resume_point)
        while not (ended := self.turn()):
            pass
        return ended[0][1]

    def turn(self, patience: float = 0.5) -> list[Ended]:
        """Advance the episodes, waiting at most `patience` seconds for an event, and return the ended episodes.

        Raises:
            Exception: an error of the agent's own code (`PlayOptions.agent_errors`), or an episode can't be written.
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

    def answer(self, ask: EpisodeRequest, text: str) -> bool:
        """Pass a person's answer to the episode of an attempt; return False if the episode doesn't wait for one."""
        for live in self._live.values():
            if live.ask is ask and live.question is not None:
                question, live.question = live.question, None
                runtime().loop.call_soon_threadsafe(settle, question, text)
                return True
        return False

    def close(self, outcome: Outcome = Outcome.ENV_ERROR, detail: str = "the rollouts were ended") -> list[Ended]:
        """Cut off all running episodes with the given outcome, and return them."""
        self._waiting.clear()
        cut = list(self._live.values())
        with contextlib.suppress(EnvError):  # the loop and its coroutines have ended already
            runtime().run(cancel([live.task for live in cut if live.task is not None]))
        for live in cut:
            if live.work is None or live.work.cancelled() or not live.work.done():
                live.result.end(outcome, trainable=False, detail=detail)
        self._handle_events(0)
        for live in list(self._live.values()):
            self._finish(live)
        ended, self._ended = self._ended, []
        return ended

    def leave(self) -> None:
        """Abandon all running episodes, as if this process were killed; another process can continue them."""
        runtime().run(cancel([live.task for live in self._live.values() if live.task is not None]))

    async def _play(self, live: RunningEpisode) -> None:
        """Play an episode, on the environments' loop."""
        result, job = live.result, live.ask.job
        live.task = asyncio.current_task()
        try:
            await self._play_steps(live)
        except EpisodeOver as over:
            result.end(over.outcome, trainable=over.trainable, detail=over.detail)
            result.traceback = over.trace
        if live.env is None:
            return
        if self._at_end is not None:
            await self._at_end(live.ask, result, live.env)
        if not result.masked:
            env, live.env = live.env, None
            await self._environments.give_back(job.env_id, env)

    async def _play_steps(self, live: RunningEpisode) -> None:
        job = live.ask.job
        live.env = env = await self._in_time(live, self._environments.take(job.env_id))
        live.log = await self._in_time(live, begin_log(env))
        resume_point = live.resume_point
        begun = env.reset(seed=job.seed) if resume_point is None else env.resume(resume_point.so_far)
        observation, _ = await self._in_time(live, begun)
        live.observation = observation
        env.core.patient = False  # the time for an answer must not count as the environment's
        await self._note_address(live, risky=False)
        self._events.put(partial(self._opened, live, observation))
        ended = False
        if resume_point is not None and resume_point.confirmed is not None:
            observation, ended = await self._confirmed(live, resume_point, resume_point.confirmed, observation)
        while not ended:
            step = await self._decided(live, observation)
            done = await self._in_time(live, env.step(step.decision.action))
            observation, ended = await self._complete(live, step, done)

    async def _decided(self, live: RunningEpisode, observation: Observation) -> Step:
        """Return a step with the agent's decision, after answering the agent's queries."""
        assert live.env is not None
        while True:
            request = DecisionRequest(live, observation, asyncio.get_running_loop().create_future())
            self._events.put(partial(self._asked, request))
            decision, privileged = await request.answer
            if decision.query is None:
                return Step(observation, decision, privileged, *UNKNOWN, request.began)
            said = await self._in_time(live, answered(live.env, decision.query))
            if (picture := said.pop("screenshot", None)) is not None:
                observation = Observation(**{**observation, "screenshot": picture})
            self._events.put(partial(self._agent.told, live.slot, said))

    async def _complete(self, live: RunningEpisode, step: Step, done: StepResult) -> tuple[Observation, bool]:
        """Complete an executed step, waiting for people if necessary; return the next observation and `ended`."""
        env, result = live.env, live.result
        assert env is not None
        while "waiting" in done[4]:
            said = await self._told(live, env, done[4]["waiting"])
            done = await self._in_time(live, env.answer(said) if isinstance(said, str) else env.core.answer(said))
        step.after, step.reward, terminated, truncated, step.info = done
        truncated = truncated or (not terminated and gave_up(step))
        step.asked, live.asked = tuple(live.asked), []
        live.observation = step.after
        result.add(step, keep=self._options.keep_steps)
        await self._note_address(live, risky="risk" in step.info)
        self._events.put(partial(self._stepped, live, step))
        if terminated or truncated:
            info = step.info
            note_reason(step)
            result.end(info["outcome"], trainable=info["trainable"], detail=info["outcome_detail"])
            result.traceback = info.get("traceback", "")
            result.crashed = result.masked and info.get("fault") != "task"
        return step.after, terminated or truncated

    async def _confirmed(
        self, live: RunningEpisode, resume_point: ResumePoint, one: AllowedAction, seen: Observation
    ) -> tuple[Observation, bool]:
        """Execute an action that a person allowed after its process ended, on the matching element of the new page."""
        assert live.env is not None
        action, way, missing = matching(one.action, one.elements, seen["elements"])
        if way == "position":  # another row of a list may have taken its place
            missing = "Several elements on the page match this action."
        if missing:
            seen["last_error"] = f"{seen['last_error']} The user allowed {one.action.to_json()}. {missing}".strip()
            return seen, False
        done = await self._in_time(live, live.env.step(action))
        if done[4].get("waiting", {}).get("why") == one.why:
            live.asked = [{"question": one.text, "answer": one.answer}]
            done = await self._in_time(live, live.env.answer(one.answer))
        past = {"observation": seen, "actions": [action.to_dict()]}
        live.resume_point = replace(resume_point, steps=(*resume_point.steps, past))
        return await self._complete(live, Step(seen, Decision(action), None, *UNKNOWN, time.time()), done)

    async def _note_address(self, live: RunningEpisode, *, risky: bool) -> None:
        """Record the address to be reopened if the browser is lost, except after risky actions."""
        if live.writer is not None and live.writer.journal is not None and live.env is not None and not risky:
            live.address = await live.env.address() or live.address

    async def _told(self, live: RunningEpisode, env: AsyncBrowserEnv, question: dict[str, str]) -> str | Exception:
        """Wait without timeout for the answer of a person, or of the function in their place."""
        live.waits_since = time.monotonic()
        try:
            said = await env.core.replied()
            by_person = said is None
            if said is None:
                live.question = asyncio.get_running_loop().create_future()
                self._events.put(partial(self._watch.waiting, live.ask, question))
                said = await live.question
            if isinstance(said, str) and (by_person or question["kind"] == "question"):
                live.asked.append({"question": question["text"], "answer": said})
            return said
        finally:
            live.go_on()

    async def _in_time(self, live: RunningEpisode, work: Awaitable[T]) -> T:
        """Await a call of the environment; any error or timeout ends the episode as `env_error`."""
        start = time.monotonic()
        try:
            async with limited(CALL_TIMEOUT) as limit:
                return await work
        except Exception as error:
            detail = reason(error)
            if limit.expired():
                detail = f"the environment did not answer within {CALL_TIMEOUT:g} s"
            raise EpisodeOver(Outcome.ENV_ERROR, detail, trace=traceback_of(error)) from error
        finally:
            seconds = time.monotonic() - start
            live.result.env_seconds += seconds
            self.times.env_seconds += seconds

    def _handle_events(self, patience: float) -> None:
        """Handle all pending events, waiting up to `patience` seconds for the first."""
        try:
            event = self._events.get(timeout=patience) if patience > 0 else self._events.get_nowait()
            while True:
                if event is not None:
                    event()
                event = self._events.get_nowait()
        except queue.Empty:
            return

    def _opened(self, live: RunningEpisode, observation: Observation) -> None:
        if live.writer is not None:
            live.writer.note(goal=observation["goal"], **live.trace)
            live.writer.note_before("at", address=live.address)
        self._watch.opened(live.ask, observation)

    def _asked(self, request: DecisionRequest) -> None:
        live = request.live
        try:
            if not live.introduced:
                live.introduced = True
                self._introduce(live, request.observation["goal"])
            request.privileged = self._oracle(live)
        except (Exception, SystemExit) as error:
            if self._options.agent_errors == "raise":
                raise
            self._blame_agent(request, raised(error))
            return
        if not self._led(request):
            self._waiting.append(request)

    def _introduce(self, live: RunningEpisode, goal: str) -> None:
        """Begin the episode in the agent, and replay the actions executed before this process."""
        assert live.env is not None
        files, open_ended = file_names(live.env.core.settings.safety.upload_from), live.env.task.open_ended
        folder = None if live.writer is None or live.writer.redacted_in_full else live.writer.folder
        self._agent.begin(live.slot, live.ask.job, goal, open_ended=open_ended, files=files, folder=folder)
        for past in live.resume_point.steps if live.resume_point is not None else ():
            with contextlib.suppress(ActionError):  # a reply without an action
                self._agent.follow(live.slot, past["observation"], recorded_action(past["actions"][0]))

    def _oracle(self, live: RunningEpisode) -> Privileged | None:
        """Return the oracle's next action. An error of the oracle fails only agents that follow the oracle."""
        assert live.env is not None
        try:
            return live.env.privileged()
        except Exception as error:
            if self._agent.needs_privileged or self._options.agent_errors == "raise":
                raise OracleRaised(live.ask.job.env_id, error) from error
            _log.info("The oracle of %s raised: %s", live.ask.job.env_id, redact_known(traceback_of(error)))
            return None

    def _led(self, request: DecisionRequest) -> bool:
        """Let the oracle take the step if it is one of the episode's first oracle steps; return whether it did."""
        live, result = request.live, request.live.result
        if not result.length == result.led < live.ask.led(self._options.lead):
            return False
        if request.privileged is None:
            return False
        result.led += 1
        action = parse_action(request.privileged["action"])
        decision = self._agent.agent.follow(request.observation, action, live.slot)
        request.write_intent(decision)
        give_answer(request, (decision, request.privileged))
        return True

    def _may_grow(self) -> bool:
        """Whether further episodes may join the waiting ones in the same call of the agent."""
        count, most = len(self._waiting), self._options.most
        moving = sum(live.waits_since is None for live in self._live.values())
        return count < moving and (most is None or count < most)

    def _act(self) -> None:
        """Ask the agent for the longest-waiting episodes with the same version of the weights."""
        self._waiting.sort(key=lambda one: one.since)
        version = self._waiting[0].live.ask.version
        acting = [one for one in self._waiting if one.live.ask.version == version][: self._options.most]
        self._waiting = [one for one in self._waiting if one not in acting]
        shows, seeded = self._options.demonstrate or self._agent.needs_privileged, acting[0].live.ask.seed is not None
        shown = [one.privileged for one in acting] if shows else None
        seeds = [one.live.ask.step_seed(one.live.result.length) for one in acting] if seeded else None
        slots, observations = [one.live.slot for one in acting], [one.observation for one in acting]
        try:
            self._watch.acting([one.live.ask for one in acting])
            with self._gather.call():
                self._prepare(version)
                answers = self._agent.decide(slots, observations, privileged=shown, seeds=seeds)
        except (PolicyError, Stop) as error:
            answers = [error] * len(acting)
        finally:
            self._watch.acted()
        if self._options.agent_errors == "raise":
            raise_first(one for one in answers if not isinstance(one, (PolicyError, Stop)))
        now = time.monotonic()
        for one, answer in zip(acting, answers, strict=True):
            self.times.agent_seconds += now - one.since
            one.live.result.agent_seconds += self._gather.last_call / len(acting)
            if isinstance(answer, (PolicyError, Stop)):  # a failure of the model's server is not the agent's fault
                give_answer(
                    one, EpisodeOver(Outcome.STOPPED if isinstance(answer, Stop) else Outcome.ENV_ERROR, str(answer))
                )
            elif isinstance(answer, BaseException):
                self._blame_agent(one, raised(answer))
            else:
                if answer.query is None:
                    self.times.steps += 1
                    one.write_intent(answer)
                give_answer(one, (answer, one.privileged))

    def _blame_agent(self, request: DecisionRequest, error: AgentRaised) -> None:
        request.live.result.agent_raised = True
        give_answer(request, EpisodeOver(Outcome.FAILED, str(error), trace=error.traceback))

    def _stepped(self, live: RunningEpisode, step: Step) -> None:
        live.write_step(step)
        self._watch.stepped(live.ask, step)

    def _end_late(self) -> None:
        """End episodes that time out while they wait for the agent."""
        now = cpu_share()
        for live in self._live.values():
            live.count(now)
        for one in list(self._waiting):
            over = one.live.late(self._options)
            if over is not None:
                self._waiting.remove(one)
                give_answer(one, over)

    def _finish(self, live: RunningEpisode) -> None:
        """Record the end of an episode, and free its slot.

        Raises:
            Exception: the episode ended by a bug in this program.
        """
        if self._live.get(live.slot) is not live:
            return
        del self._live[live.slot]
        self._free.append(live.slot)
        result, work = live.result, live.work
        error = work.exception() if work is not None and work.done() and not work.cancelled() else None
        if error is not None:
            result.end(Outcome.ENV_ERROR, trainable=False, detail=f"{type(error).__name__}: {error}")
            result.traceback = traceback_of(error)
        messages = live.observation["messages"] if live.observation and result.claimed else ()
        result.answer = next((one["text"] for one in reversed(messages) if one["role"] == "assistant"), "")
        result.seconds = live.lasted
        if live.env is not None:
            self._environments.drop(live.env)
        not_resumed = live.resume_point is not None and live.observation is None  # can be tried again
        if live.introduced:
            result.terminal_reason = self._agent.why_ended(live.slot, result.outcome, result.detail)
        if live.writer is not None and not not_resumed:
            live.writer.note(**result.notes(), **live.trace)
            live.writer.finish(
                result.outcome, trainable=result.trainable, after=live.observation, detail=result.detail,
                score=result.score, **result.totals(),
            )  # fmt: skip
        live.close_log()
        ended = f"{result.job.env_id} seed {result.job.seed}: {result.ending} after {result.length} steps"
        _log.info("%s", redact_known("\n".join(filter(None, (ended, result.detail, result.traceback))).rstrip()))
        self.times.episodes += 1
        self._ended.append((live.ask, result))
        if error is not None:
            raise error
