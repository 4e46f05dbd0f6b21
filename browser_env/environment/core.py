"""The asynchronous core of all environments: reset, step and close on the runtime's event loop.

`BrowserEnv`, `AsyncBrowserEnv` and `VectorBrowserEnv` are interfaces to this one class.
"""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium.utils.seeding import np_random

from selfsurf.browser_env.act.mouse import click_again
from selfsurf.browser_env.act.perform import perform, resolved
from selfsurf.browser_env.act.settle import Hint, hint_of
from selfsurf.browser_env.act.targets import Targets
from selfsurf.browser_env.actions import (
    Action,
    AskUser,
    Click,
    Fill,
    Finish,
    Infeasible,
    Message,
    Type,
    Wait,
    parse_action,
)
from selfsurf.browser_env.environment.confirm import Confirmer, place_of, place_of_focus
from selfsurf.browser_env.environment.observer import Observer
from selfsurf.browser_env.environment.scoring import Scoring, outcome_of, paid
from selfsurf.browser_env.environment.settings import Settings
from selfsurf.browser_env.environment.step_results import StepResult, StepResults
from selfsurf.browser_env.errors import ActionError, BrowserNotFound, EnvError, reason, task_code, traceback_of
from selfsurf.browser_env.human_input import Answer, AnswerNeeded, Program, Question, Risk
from selfsurf.browser_env.observation import ChatMessage, Info, Observation
from selfsurf.browser_env.observe.capture import view_of
from selfsurf.browser_env.outcome import Outcome
from selfsurf.browser_env.patience import put_off
from selfsurf.browser_env.safety.policy import LATER
from selfsurf.browser_env.safety.secrets import PLACEHOLDER, Vault
from selfsurf.browser_env.session.deadline import PageHangs, deadline
from selfsurf.browser_env.session.determinism import Clock, DeterministicTab, run_with_time
from selfsurf.browser_env.session.session import Session
from selfsurf.browser_env.session.sources import context_source
from selfsurf.browser_env.session.tab import Tab
from selfsurf.browser_env.task import EpisodeProgress, EpisodeState, Task, Viewport, accepted, opening
from selfsurf.browser_env.text import action_text, one_line, well_formed
from selfsurf.browser_env.timing import Timing

RESET_ATTEMPTS = 2
"""Attempts to set a task up before a reset fails; the second attempt uses a new browser context."""


class EnvCore(StepResults):
    """An environment: browser session, task and episode state. Its coroutines run on the runtime's event loop."""

    def __init__(self, task: Task, settings: Settings, viewport: Viewport) -> None:
        if task.uploads:
            folders = (*settings.safety.upload_from, *task.uploads)
            settings = replace(settings, safety=replace(settings.safety, upload_from=folders))
        self.task = task
        self.settings = settings
        self.viewport = viewport
        self.max_steps: int | None = None
        """The episode's step limit; reaching it gives the outcome `timeout`."""
        self.on_tab: Callable[[Tab], Awaitable[None]] | None = None
        """Callback that is awaited with each opened tab before the tab is used; None for no callback."""
        self.episode = EpisodeState()
        self.observation: Observation | None = None
        self.vault = Vault(settings.safety.secrets)
        self.patient = True
        """Whether a step waits for a program that answers for the user; if False, the step returns at once."""
        self._confirmer = Confirmer(settings.safety, settings.user)
        self.question: Question | None = None
        """Question that the current step waits for; None if no step waits."""
        self._limit: asyncio.Timeout | None = None
        self._ended: StepResult | None = None
        self.foreign: dict[int, Any] = {}
        self._leaving: asyncio.Future[None] | None = None
        self._contexts = context_source(settings.browser, settings.session)
        self._observer = Observer(settings, viewport, self.vault)

    async def reset(self, seed: int) -> tuple[Observation, Info]:
        """Start the episode that belongs to a seed.

        Raises:
            EnvError: the task could not be set up in two attempts; a new page that hangs is tried only once.
        """
        start, before = time.perf_counter(), self.session
        self._ended, self.question, self.episode = None, None, EpisodeState(seed=seed)
        for attempt in (1, 2):
            try:
                async with self._deadline(self.settings.reset_timeout):
                    return await self._reset(np_random(seed)[0], seed, start)
            except (BrowserNotFound, asyncio.CancelledError):
                self._leave()
                raise
            except Exception as raised:
                error = await self.explained(raised)
                why, trace = reason(error), traceback_of(error)
                self._log(f"Attempt {attempt} to set up {self.task.id} failed: {why}\n{trace}")
                if self.session is not None:
                    why = self.session.access.explain(why)
                final = attempt == 2 or (isinstance(raised, PageHangs) and self.session is not before)
                await self._abandon()
                if final:
                    what = f"{one_line(self.task.start_url or 'The page')} could not be opened"
                    if type(self.task) is not Task:
                        what = f"The task {self.task.id} could not be set up"
                    failure = EnvError(self.vault.redact(f"{what}: {why}"))
                    failure.traceback = self.vault.redact(trace)
                    raise failure from (None if self.vault else error)
        raise AssertionError("unreachable")

    async def reset_or_fail(self, seed: int) -> StepResult:
        """Start an episode within a step, for autoreset. A failure becomes an `env_error`, not an exception."""
        start, last = time.perf_counter(), self.observation
        try:
            observation, info = await self.reset(seed)
        except EnvError as error:
            if last is None:
                raise
            self.observation = last  # returned with the error
            self._ended = self._env_error("", error, start)
            return copy.deepcopy(self._ended)
        return observation, 0.0, False, False, info

    async def _reset(self, rng: np.random.Generator, seed: int, start: float) -> tuple[Observation, Info]:
        session = await self._fresh_session(rng)
        session.take_events()
        session.downloads.forget()
        self._confirmer.begin()
        with session.access.during_setup(session.active.page, self.task):
            goal = await session.active.rest_mouse(self._setup(session, rng))
        if not self.task.keeps_session:
            if self.task.restarts_in_page:
                await session.active.call("forget")
            session.next_id = 1
        session.calls.take()
        self._observer.start_episode()
        self.episode = EpisodeState(goal=goal, seed=seed)
        self.episode.messages += opening(self.task, goal)
        acted = time.perf_counter()
        view = await self._observer.look(session)
        if self.task.restarts_in_page:
            session.take_events()  # events of a reload or restart are not part of the episode
        observation = self._observation(session, view, last_action="", last_error="")
        now = time.perf_counter()
        timing = Timing(act=acted - start, settle=view.waited, observe=now - acted - view.waited, total=now - start)
        return observation, self._info(Outcome.RUNNING, "", self._no_score, timing, path="")

    async def resume(self, so_far: EpisodeProgress) -> tuple[Observation, Info]:
        """Continue an open-ended episode of another process in the browser that the process left running.

        If that browser is gone, `so_far.address` is opened in a new one with the same profile, and the observation's
        last error says what was lost. No action is carried out, and elements get new ids.

        Raises:
            EnvError: no browser could be opened, or the page could not be observed.
        """
        start = time.perf_counter()
        self._ended = self.question = None
        try:
            async with self._deadline(self.settings.reset_timeout):
                session, lost = await self._taken_over(so_far)
                session.take_events()
                session.next_id = so_far.first_id
                self._observer.start_episode()
                messages = [message.copy() for message in so_far.messages]
                self.episode = EpisodeState(so_far.goal, so_far.seed, so_far.steps, so_far.reward, messages=messages)
                self._confirmer.begin(so_far.cut_off)
                view = await self._observer.look(session)
                error = f"{so_far.last_error} {lost}".strip()
                observation = self._observation(session, view, last_action=so_far.last_action, last_error=error)
        except Exception as error:
            await self._abandon()
            raise EnvError(self.vault.redact(f"The episode can't continue: {reason(error)}")) from error
        timing = Timing(total=time.perf_counter() - start)
        return observation, self._info(Outcome.RUNNING, lost, self._no_score, timing, path="")

    async def _taken_over(self, so_far: EpisodeProgress) -> tuple[Session, str]:
        """Return the session of the browser left running, or a new session and a message about what was lost."""
        attached, rng = self._contexts.attached, np_random(so_far.seed)[0]
        try:
            self.session = session = await self._open_session(rng, adopts=True)
        except Exception as error:
            if not attached:
                raise
            self._log(f"The browser left running can't be used: {reason(error)}")
            await self._contexts.give_up()
            attached = False
            self.session = session = await self._open_session(rng)
        session.active = next((tab for tab in session.tabs if tab.page.url == so_far.url), session.active)
        if attached:
            return session, ""
        lost = f"The browser was lost, with its tabs and all typed text. {one_line(so_far.address)} "
        try:
            session.access.admit(so_far.address)
            await session.active.page.goto(so_far.address or "about:blank", wait_until="domcontentloaded")
        except Exception as error:
            return session, f"{lost}could not be opened again: {session.access.explain(reason(error))}."
        return session, f"{lost}was opened again."

    async def _fresh_session(self, rng: np.random.Generator) -> Session:
        session = self.session
        if session is not None:
            again = self.task.restarts_in_page or self.task.keeps_session
            reusable = again and not self.settings.session.one_context_an_episode
            lost = session.closed or session.active.crashed
            as_it_was = self.task.keeps_session or len(session.tabs) == 1
            if reusable and not lost and as_it_was and session.clock is None:
                return session
            self.session = None
            await self._end(session)
        self.session = await self._open_session(rng)
        return self.session

    async def _open_session(self, rng: np.random.Generator, *, adopts: bool = False) -> Session:
        return await Session.open(
            self.task, self._contexts, self.viewport,
            {**self.settings.context, **self.settings.session.credentials(self.task.start_url)},
            dialogs=self.settings.dialogs, safety=self.settings.safety, limits=self.settings.view.limits,
            clock=Clock(int(copy.deepcopy(rng).integers(2**32))) if self.settings.deterministic else None,
            on_tab=self.on_tab,
            adopts=adopts,
        )  # fmt: skip

    async def _setup(self, session: Session, rng: np.random.Generator) -> str:
        with task_code("setup"):
            work = self.task.setup(session.active.page, rng)
            goal = await (work if session.clock is None else run_with_time(work, lambda: session.active))
        if not isinstance(goal, str):
            raise EnvError(f"The task's setup must return the goal as a string, not {goal!r}.")
        return goal

    async def step(self, raw: Any) -> StepResult:
        """Carry out one action. Failures of the page, browser or agent are part of the result, never raised."""
        if self._ended is not None and self.observation is not None:
            return self._after_the_end(raw, *copy.deepcopy(self._ended))
        if self.observation is None or self.session is None:
            raise EnvError("Call reset() before step().")
        session = self.session
        if self.question is not None:
            return await self._while_waiting(self.question, raw)
        self.episode.steps += 1
        result = await self._in_time(raw, lambda start: self._step(session, raw, start))
        while self.patient and self.question is not None and self.question.program is not None:
            result = await self.answer(await self.question.program.said())
        return result

    async def answer(self, said: str | Exception) -> StepResult:
        """Complete the step that waits for a person.

        Args:
            said: the answer; an exception fails the step.

        Raises:
            EnvError: no step waits.
        """
        question, session = self.question, self.session
        if question is None or session is None:
            raise EnvError("There is nothing to answer: no step waits for a person.")
        self.question = None

        async def go_on(start: float) -> StepResult:
            if isinstance(said, Exception):
                raise said
            return await self._step(session, question.action, start, (question, well_formed(said)))

        return await self._in_time(question.action, go_on)

    async def replied(self) -> str | Exception | None:
        """Return the answer of the program that answers for the user; None if a person has to answer."""
        program = self.question.program if self.question is not None else None
        return None if program is None else await program.said()

    async def _while_waiting(self, question: Question, raw: Any) -> StepResult:
        """Complete the waiting step if its answer has arrived; otherwise return its waiting result again."""
        if isinstance(raw, Answer):
            return await self.answer(raw.text)
        if question.program is not None and question.program.done:
            return await self.answer(await question.program.said())
        error = "" if raw is None else "Nothing was done: the user has not answered yet."
        return self._asking(question, error, time.perf_counter())

    async def _in_time(self, raw: Any, work: Callable[[float], Awaitable[StepResult]]) -> StepResult:
        """Run a step within its deadline. Any failure becomes an `env_error`."""
        start = time.perf_counter()
        try:
            async with self._deadline(self.settings.step_timeout) as self._limit:
                result = await work(start)
        except asyncio.CancelledError:
            self._leave()  # how far the step got is unknown
            raise
        except Exception as error:
            result = self._env_error(raw, await self.explained(error), start)
            await self._abandon()
        if result[2] or result[3]:
            self._ended = result
        return result

    async def _step(
        self, session: Session, raw: Any, start: float, answered: tuple[Question, str] | None = None
    ) -> StepResult:
        tab, since = session.active, session.active.clock
        self.failed_as, last_error, path, last_action = None, "", "", ""
        session.start_step()
        self._confirmer.start_step(session)
        hint: Hint = ""
        try:
            action = parse_action(raw)
            self.episode.last_action = action
            last_action = well_formed(action.to_json())
            if isinstance(action, Wait) and self._limit is not None:
                put_off(self._limit, action.ms / 1000)
            path = await (self._do(session, action) if answered is None else self._go_on(session, *answered))
            hint = hint_of(action)
            if isinstance(action, Wait) and isinstance(session.active, DeterministicTab):
                await session.active.advance(action.ms)
        except AnswerNeeded as asks:
            self.question = asks.question
            return self._asking(asks.question, "", start)
        except ActionError as error:
            last_error, self.failed_as = self.settings.view.limits.note(str(error)), error.kind
            last_action = last_action or action_text(raw)
        except Exception:
            if not tab.page.is_closed():
                raise
            await session.attached()  # the action closed its own tab, and another tab is active now
        acted = time.perf_counter()
        await session.attached()
        if session.active is not tab:
            since, hint = session.since, ""
        return await self._outcome_of(session, since, hint, (last_action, last_error, path), start, acted)

    async def _outcome_of(
        self, session: Session, since: int, hint: Hint, done: tuple[str, str, str], start: float, acted: float
    ) -> StepResult:
        """Let the page settle, observe and score it. `done`: the action, its error, and how it was carried out."""
        last_action, last_error, path = done
        scoring, seen = Scoring(self.task, session, self.episode, self._limit), session.active
        view = await self._observer.look(session, since, scoring.read, hint)
        action = self.episode.last_action
        if (
            session.stopped
            and isinstance(action, Click)
            and await click_again(Targets(session, view.foreign, view.elements), action)
        ):
            session.missed = ""
            view = await self._observer.look(session, since, scoring.read, hint)
        if session.opening or session.active is not seen:  # a tab was opened or announced during the observation
            await session.attached()
            view = await self._observer.look(session, session.since, scoring.read)
        await session.downloads.ended()
        last_error = self._troubled(session, last_error)
        before, self.episode.requests = self.observation, session.calls.take()
        observation = self._observation(session, view, last_action=last_action, last_error=last_error)
        score = scoring.final(before, observation)
        now = time.perf_counter()
        outcome = outcome_of(score, self.episode, self.max_steps)
        terminated = outcome not in (Outcome.RUNNING, Outcome.TIMEOUT)
        act, observe, total = acted - start, now - acted - view.waited, now - start
        timing = Timing(act=act, settle=view.waited, score=scoring.seconds, observe=observe, total=total)
        info = self._info(outcome, last_error, score, timing, path)
        return observation, paid(score, self.episode), terminated, outcome is Outcome.TIMEOUT, info

    async def witnessed(self, action: Action, since: int, number: int) -> StepResult:
        """Observe and score a step whose action a person carried out in the browser's window.

        Args:
            action: the person's action.
            since: the active tab's clock before the action.
            number: the episode's number of steps, including this one.
        """
        assert self.session is not None
        start = time.perf_counter()
        self.episode.steps, self.episode.last_action = number, action
        try:
            async with self._deadline(self.settings.step_timeout) as self._limit:
                await self.session.attached()
                done = (well_formed(action.to_json()), "", "person")
                return await self._outcome_of(self.session, since, hint_of(action), done, start, start)
        except Exception as error:
            result = self._env_error(action, await self.explained(error), start)
            await self._abandon()
            return result

    async def witness(self, raw: dict[str, Any] | None = None, tab: Tab | None = None) -> Observation:
        """Return an observation outside of a step: of the settled page, or of `raw`, a scan of `tab`."""
        assert self.session is not None
        if raw is None or tab is None:
            async with self._deadline(self.settings.step_timeout):
                view = await self._observer.look(self.session)
        else:
            view = await view_of(self.session, tab, self.settings.view, raw, time.monotonic())
        last = self.observation
        seen = self._observation(self.session, view, last_action=last["last_action"] if last else "", last_error="")
        if last is not None and "screenshot" in last and "screenshot" not in seen:
            seen["screenshot"] = last["screenshot"]
        return seen

    async def _do(self, session: Session, action: Any) -> str:
        episode = self.episode
        match action:
            case Finish():
                episode.answer, episode.finished = accepted(self.task, action.answer), True
                self._say(action.answer)
            case Infeasible():
                episode.finished, episode.infeasible = True, True
                self._say(action.reason)
            case Message():
                self._say(action.text)
            case AskUser():
                self._say(action.question)
                if (user := self.settings.user) is None:
                    raise ActionError("Nobody is there to answer; decide yourself.")
                program = None if user == LATER else Program(lambda: user(action.question), name="user")
                raise AnswerNeeded(Question("question", action.question, action, program=program))
            case _:
                return await self._perform(session, action)
        return "chat"

    async def _go_on(self, session: Session, question: Question, said: str) -> str:
        """Process a person's answer: add it to the chat, or carry out the action that it confirms."""
        if question.kind == "question":
            self.episode.messages.append(ChatMessage(role="user", text=said))
            return "chat"
        self._confirmer.answered(question, said)
        view = await self._observer.look(session)  # the page may have changed meanwhile
        self.foreign = view.foreign
        assert self.observation is not None
        self.observation = {**self.observation, "elements": view.elements}
        return await self._perform(session, question.action, allowed=question.risk)

    async def _perform(self, session: Session, action: Any, allowed: Risk | None = None) -> str:
        """Carry out an action on the page. `allowed`: the risk that a person has agreed to."""
        assert self.observation is not None
        targets = Targets(session, self.foreign, self.observation["elements"])
        self.episode.last_action = action = await resolved(targets, action)
        await self._confirmer.check(targets, action, self.observation, allowed)
        filled = await self._with_secrets(targets.tab, action)
        path = await perform(targets, filled, at_once=filled is not action)
        self._confirmer.check_dialog(action, self.observation)
        return path

    def _say(self, text: str) -> None:
        self.episode.messages.append(ChatMessage(role="assistant", text=well_formed(text)))

    async def _with_secrets(self, tab: Tab, action: Any) -> Any:
        """Replace `<secret:name>` with the secret's value in the text to be typed."""
        if not isinstance(action, Fill | Type):
            if self.vault and PLACEHOLDER.search(action.to_json()):
                raise ActionError("Secrets can only be typed, with fill or type.")
            return action
        if not PLACEHOLDER.search(action.text):
            return action
        place = await (place_of_focus(tab) if action.id is None else place_of(tab, action.id, self.foreign))
        return action.model_copy(update={"text": self.vault.fill(action.text, *place)})

    def _deadline(self, seconds: float) -> AbstractAsyncContextManager[asyncio.Timeout]:
        return deadline(seconds, self.settings.hang_timeout, lambda: self.session)

    async def explained(self, error: Exception) -> Exception:
        """Return an `EnvError` if a crashed page or dead browser caused the error, otherwise the error itself."""
        crashed = self.session is not None and self.session.active.crashed
        behind = await self._contexts.behind("Target crashed" if crashed else str(error))
        return EnvError(behind) if behind else error

    async def _end(self, session: Session) -> None:
        try:
            async with asyncio.timeout(5):
                await self.task.teardown(session.active.page)
        except Exception as error:  # the page may be gone; the next episode is unaffected
            self._log(f"The teardown of {self.task.id} failed: {reason(error)}\n{traceback_of(error)}")
        finally:
            await session.close()

    def _leave(self) -> None:
        """Close the session in the background, because the caller was cancelled. The next `reset` opens a new one."""
        self.observation = self.question = None
        self._leaving = asyncio.ensure_future(self._abandon())

    async def _abandon(self) -> None:
        session, self.session = self.session, None
        if session is not None:
            await session.close(broken=True)

    async def close(self) -> None:
        """Close the session. Closing twice is fine."""
        session, self.session = self.session, None
        self.observation = self.question = None
        if session is not None:
            await self._end(session)
