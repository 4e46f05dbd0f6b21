"""The environment itself, asynchronous: reset, step and close, all on the runtime's event loop.

`BrowserEnv`, `AsyncBrowserEnv` and `VectorBrowserEnv` are interfaces to this one class.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, fields, replace
from typing import Any

import numpy as np

from selfsurf.browser_env.act.perform import perform, resolved
from selfsurf.browser_env.act.settle import Hint, hint_of
from selfsurf.browser_env.act.targets import Targets
from selfsurf.browser_env.actions import Action, AskUser, Fill, Finish, Infeasible, Message, Type, Wait, parse_action
from selfsurf.browser_env.errors import ActionError, BrowserNotFound, EnvError
from selfsurf.browser_env.observation import ChatMessage, Info, Observation
from selfsurf.browser_env.observe.capture import View, view_of
from selfsurf.browser_env.observe.delta import NO_CHANGE
from selfsurf.browser_env.observe.marks import draw
from selfsurf.browser_env.observe.observer import Observer
from selfsurf.browser_env.observe.paged_scan import Scan, paged_scan
from selfsurf.browser_env.outcome import Outcome
from selfsurf.browser_env.safety.confirm import Confirmer, focused, host_of
from selfsurf.browser_env.safety.secrets import PLACEHOLDER, Vault
from selfsurf.browser_env.scoring import Scoring
from selfsurf.browser_env.session.contexts import context_source
from selfsurf.browser_env.session.deadline import deadline
from selfsurf.browser_env.session.determinism import Clock, DeterministicTab, run_with_time
from selfsurf.browser_env.session.session import Session
from selfsurf.browser_env.session.tab import Tab
from selfsurf.browser_env.settings import Settings
from selfsurf.browser_env.task import EpisodeState, Score, Task, Viewport
from selfsurf.browser_env.text import first_line, well_formed
from selfsurf.browser_env.timing import Timing

StepResult = tuple[Observation, float, bool, bool, Info]

RESET_ATTEMPTS = 2
"""Attempts to set a task up before a reset fails; the second one uses a new browser context."""


class EnvCore:
    """One environment: a session, a task and the episode's state. Its coroutines run on the runtime's loop."""

    def __init__(self, task: Task, settings: Settings, viewport: Viewport) -> None:
        self.task = task
        self.settings = settings
        self.viewport = viewport
        self.max_steps: int | None = None
        """The episode's step limit; reaching it gives the outcome `timeout`."""
        self.on_tab: Callable[[Tab], Awaitable[None]] | None = None
        """Awaited with every tab that is opened, before it is used."""
        self.session: Session | None = None
        self.episode = EpisodeState()
        self.observation: Observation | None = None
        self.vault = Vault(settings.safety.secrets)
        self._confirmer = Confirmer(settings.safety)
        self._ended: StepResult | None = None
        self._foreign: dict[int, Any] = {}
        self._leaving: asyncio.Future[None] | None = None
        self._contexts = context_source(settings.browser, settings.session)
        self._observer = Observer(settings, viewport, self.vault)

    async def reset(self, rng: np.random.Generator, seed: int | None) -> tuple[Observation, Info]:
        """Start an episode.

        Raises:
            EnvError: the task could not be set up, in two attempts.
        """
        start = time.perf_counter()
        state = rng.bit_generator.state
        self._ended = None
        for attempt in range(RESET_ATTEMPTS):
            rng.bit_generator.state = state  # the second attempt must set up the same episode
            try:
                async with self._deadline(self.settings.reset_timeout):
                    return await self._reset(rng, seed, start)
            except (BrowserNotFound, asyncio.CancelledError):
                self._leave()
                raise
            except Exception as error:
                why = first_line(error)
                if self.session is not None:
                    why = self.session.access.explain(why)
                await self._abandon()
                if attempt == RESET_ATTEMPTS - 1:
                    message = self.vault.redact(f"Task {self.task.id} could not be set up: {why}")
                    raise EnvError(message) from (None if self.vault else error)
        raise AssertionError("unreachable")

    async def reset_or_fail(self, rng: np.random.Generator) -> StepResult:
        """Start an episode within a step, for autoreset: a failure becomes an `env_error`, not an exception."""
        start = time.perf_counter()
        try:
            observation, info = await self.reset(rng, None)
        except EnvError as error:
            return self._env_error("", str(error), start)
        return observation, 0.0, False, False, info

    async def _reset(self, rng: np.random.Generator, seed: int | None, start: float) -> tuple[Observation, Info]:
        session = await self._fresh_session(rng)
        session.take_events()
        session.downloads.forget()
        self._confirmer.risk = None
        with session.access.during_setup(session.context):
            _, goal = await asyncio.gather(session.active.rest_mouse(), self._setup(session, rng))
        if self.task.restarts_in_page:
            await session.active.call("forget")
        session.next_id = 1
        self._observer.start_episode()
        self.episode = EpisodeState(goal=goal, seed=seed)
        if goal:
            self.episode.messages.append(ChatMessage(role="user", text=goal))
        acted = time.perf_counter()
        view = await self._observer.look(session)
        if self.task.restarts_in_page:
            session.take_events()  # whether the page was reloaded or restarted is not part of the episode
        observation = self._observation(session, view, last_action="", last_error="")
        now = time.perf_counter()
        timing = Timing(act=acted - start, settle=view.waited, observe=now - acted - view.waited, total=now - start)
        return observation, self._info(Outcome.RUNNING, "", Score(), timing, path="")

    async def _fresh_session(self, rng: np.random.Generator) -> Session:
        session = self.session
        if session is not None:
            reusable = self.task.restarts_in_page and not self.settings.session.one_context_an_episode
            lost = session.closed or session.active.crashed
            if reusable and not lost and len(session.tabs) == 1 and session.clock is None:
                return session
            self.session = None
            await self._teardown(session)
            await session.close()
        self.session = await Session.open(
            self.task,
            self._contexts,
            self.viewport,
            self.settings.context,
            dialogs=self.settings.dialogs,
            safety=self.settings.safety,
            clock=Clock(int(copy.deepcopy(rng).integers(2**32))) if self.settings.deterministic else None,
            on_tab=self.on_tab,
        )
        return self.session

    async def _setup(self, session: Session, rng: np.random.Generator) -> str:
        work = self.task.setup(session.active.page, rng)
        goal = await (work if session.clock is None else run_with_time(work, lambda: session.active))
        if not isinstance(goal, str):
            raise EnvError(f"The task's setup returns its goal as a text, not {goal!r}.")
        return goal

    async def step(self, raw: Any) -> StepResult:
        """Carry out one action. Never raises because of what a page, a browser or an agent does."""
        if self._ended is not None and self._ended[4]["outcome"] == Outcome.ENV_ERROR:
            return copy.deepcopy(self._ended)
        if self.observation is None or self.session is None:
            raise EnvError("Call reset() before step().")
        start = time.perf_counter()
        self.episode.steps += 1
        try:
            async with self._deadline(self.settings.step_timeout) as self._confirmer.deadline:
                result = await self._step(self.session, raw, start)
        except asyncio.CancelledError:
            self._leave()  # it is unknown how far the step got
            raise
        except Exception as error:
            result = self._env_error(raw, first_line(error), start)
            await self._abandon()
        if result[2] or result[3]:
            self._ended = result
        return result

    async def _step(self, session: Session, raw: Any, start: float) -> StepResult:
        tab, since = session.active, session.active.clock
        last_error, path, last_action = "", "", ""
        session.access.start_step()
        self._confirmer.risk = None
        hint: Hint = ""
        try:
            action = parse_action(raw)
            self.episode.last_action = action
            last_action = well_formed(action.to_json())
            if isinstance(action, Wait) and self._confirmer.deadline is not None:
                self._put_off(self._confirmer.deadline, action.ms / 1000)
            path = await self._do(session, action)
            hint = hint_of(action)
            if isinstance(action, Wait) and isinstance(session.active, DeterministicTab):
                await session.active.advance(action.ms)
        except ActionError as error:
            last_error = str(error)
            last_action = last_action or _as_text(raw)
        except Exception:
            if not tab.page.is_closed():
                raise
            await session.attached()  # the action closed its own tab; another one takes its place
        acted = time.perf_counter()
        await session.attached()
        if session.active is not tab:
            since, hint = -1, ""
        return await self._outcome_of(session, since, hint, (last_action, last_error, path), start, acted)

    async def _outcome_of(
        self, session: Session, since: int, hint: Hint, done: tuple[str, str, str], start: float, acted: float
    ) -> StepResult:
        """Settle, observe and score. `done`: the action, its error, and how it was carried out."""
        last_action, last_error, path = done
        scoring = Scoring(self.task, session, self.episode)
        view = await self._observer.look(session, since, scoring.read, hint)
        if session.opening:  # a tab was announced during the observation
            await session.attached()
            view = await self._observer.look(session, -1, scoring.read)
        await session.downloads.ended()
        last_error = session.access.navigation or last_error
        score = scoring.score
        observation = self._observation(session, view, last_action=last_action, last_error=last_error)
        now = time.perf_counter()
        outcome = self._judge(score)
        terminated = outcome not in (Outcome.RUNNING, Outcome.TIMEOUT)
        act, observe, total = acted - start, now - acted - view.waited, now - start
        timing = Timing(act=act, settle=view.waited, score=scoring.seconds, observe=observe, total=total)
        info = self._info(outcome, last_error, score, timing, path)
        return observation, float(score.reward), terminated, outcome is Outcome.TIMEOUT, info

    async def witnessed(self, action: Action, since: int, number: int) -> StepResult:
        """Like `step`, for an action that a person has carried out in the window.

        Args:
            action: what was done.
            since: the active tab's clock before it.
            number: the episode's number of steps, this one included.
        """
        assert self.session is not None
        start = time.perf_counter()
        self.episode.steps, self.episode.last_action = number, action
        try:
            async with self._deadline(self.settings.step_timeout):
                await self.session.attached()
                done = (well_formed(action.to_json()), "", "person")
                return await self._outcome_of(self.session, since, hint_of(action), done, start, start)
        except Exception as error:
            result = self._env_error(action, first_line(error), start)
            await self._abandon()
            return result

    async def witness(self, raw: dict[str, Any] | None = None, tab: Tab | None = None) -> Observation:
        """Return an observation outside of a step: of the settled page, or of what a pass over `tab` returned."""
        assert self.session is not None
        if raw is None or tab is None:
            view = await self._observer.look(self.session)
        else:
            view = await view_of(self.session, tab, self.settings.view, raw, None)
        last = self.observation
        seen = self._observation(self.session, view, last_action=last["last_action"] if last else "", last_error="")
        if last is not None and "screenshot" in last and "screenshot" not in seen:
            seen["screenshot"] = last["screenshot"]
        return seen

    async def _do(self, session: Session, action: Any) -> str:
        episode = self.episode
        match action:
            case Finish():
                episode.finished, episode.answer = True, action.answer
                self._say(action.answer)
            case Infeasible():
                episode.finished, episode.infeasible = True, True
                self._say(action.reason)
            case Message():
                self._say(action.text)
            case AskUser():
                self._say(action.question)
                if self.settings.user is None:
                    raise ActionError("Nobody is there to answer; decide yourself.")
                answer = await asyncio.to_thread(self.settings.user, action.question)
                episode.messages.append(ChatMessage(role="user", text=answer))
            case _:
                assert self.observation is not None
                targets = Targets(session, self._foreign, self.observation["elements"])
                action = await resolved(targets, action)
                await self._confirmer.check(session, action, self.observation, self._foreign)
                filled = await self._with_secrets(session, action)
                return await perform(targets, filled, at_once=filled is not action)
        return "chat"

    def _say(self, text: str) -> None:
        self.episode.messages.append(ChatMessage(role="assistant", text=well_formed(text)))

    async def _with_secrets(self, session: Session, action: Any) -> Any:
        """Replace `<secret:name>` by the secret's value in the text to be typed."""
        if not isinstance(action, Fill | Type):
            if self.vault and PLACEHOLDER.search(action.to_json()):
                raise ActionError("Secrets can only be typed, with fill or type.")
            return action
        if not PLACEHOLDER.search(action.text):
            return action
        id = action.id if action.id is not None else focused(self.observation)
        host = await host_of(session, id, self._foreign)
        return action.model_copy(update={"text": self.vault.fill(action.text, host)})

    def _judge(self, score: Score) -> Outcome:
        if score.done or self.episode.finished:
            if not score.judged:
                return Outcome.INFEASIBLE if self.episode.infeasible else Outcome.STOPPED
            if score.reward >= 1:
                return Outcome.SOLVED
            return Outcome.INFEASIBLE if self.episode.infeasible else Outcome.FAILED
        if self.max_steps is not None and self.episode.steps >= self.max_steps:
            return Outcome.TIMEOUT
        return Outcome.RUNNING

    def _observation(self, session: Session, view: View, *, last_action: str, last_error: str) -> Observation:
        self._foreign = view.foreign
        observation = Observation(
            goal=self.episode.goal,
            url=view.url,
            title=view.title,
            tabs=view.tabs,
            elements=view.elements,
            dom=self._observer.outline(session, view),
            page_text=view.page_text,
            events=session.take_events(),
            messages=tuple(message.copy() for message in self.episode.messages),
            last_action=last_action,
            last_error=last_error,
        )
        if view.screenshot is not None:
            observation["screenshot"] = view.screenshot
        self.observation = self.vault.redact_observation(observation)
        return self.observation

    @staticmethod
    def _put_off(limit: asyncio.Timeout, seconds: float) -> None:
        """Extend a step's deadline: a page that is merely waited for doesn't hang."""
        when = limit.when()
        if when is not None and not limit.expired():
            limit.reschedule(when + seconds)

    def _deadline(self, seconds: float) -> AbstractAsyncContextManager[asyncio.Timeout]:
        return deadline(seconds, self.settings.hang_timeout, lambda: self.session)

    def _env_error(self, raw: Any, why: str, start: float) -> StepResult:
        assert self.observation is not None
        observation = copy.deepcopy(self.observation)
        if self._observer.reports_changes:
            observation["dom"] = NO_CHANGE  # no page was observed
        observation["last_action"] = _as_text(raw)
        observation["last_error"] = f"The environment failed: {why}."
        observation["events"] = self.session.take_events() if self.session is not None else ()
        observation = self.vault.redact_observation(observation)
        timing = Timing(total=time.perf_counter() - start)
        info = self._info(Outcome.ENV_ERROR, why, Score(), timing, path="")
        return observation, 0.0, False, True, info

    def _info(self, outcome: Outcome, detail: str, score: Score, timing: Timing, path: str) -> Info:
        info = {
            "outcome": str(outcome),
            "outcome_detail": detail,
            "trainable": outcome.trainable,
            "score": dict(score.details),
            "timing": timing,
            "action_path": path,
            "downloads": self.downloads,
        }
        if self._confirmer.risk is not None:
            info["risk"] = asdict(self._confirmer.risk)
        return self.vault.redact(info) if self.vault else info

    @property
    def downloads(self) -> tuple[str, ...]:
        """Paths of the files that this episode has downloaded."""
        return tuple(map(str, self.session.downloads.files)) if self.session is not None else ()

    def privileged(self) -> dict[str, Any] | None:
        """Return what the task's oracle would do now, and why: `{"action", "reason"}`, or None."""
        if self.observation is None or self._ended is not None:
            return None
        action = self.task.oracle(self.observation)
        if action is None:
            return None
        view: dict[str, Any] = self.vault.redact({"action": action.to_dict(), "reason": action.reason})
        return view

    async def screenshot(self) -> Any:
        """Return the active tab as an RGB array, from the last observation or a new screenshot; None before a reset."""
        if self.observation is None:
            return None
        if "screenshot" in self.observation:
            return self.observation["screenshot"]
        if self.session is None:
            return None
        return (await self._observer.glance(self.session)).screenshot

    async def storage_state(self) -> dict[str, Any]:
        """Return the session's cookies, localStorage and IndexedDB, as `SessionOptions.storage_state` takes them.

        Raises:
            EnvError: there is no session, or it was lost.
        """
        if self.session is None:
            raise EnvError("Call reset() before storage_state().")
        try:
            async with asyncio.timeout(self.settings.step_timeout):
                return dict(await self.session.context.storage_state(indexed_db=True))
        except Exception as error:
            raise EnvError(f"The storage can't be read: {first_line(error)}.") from error

    async def marked(self) -> Any:
        """Return the screenshot with the elements of the last observation marked (`browser_env.observe.marks`)."""
        pixels = await self.screenshot()
        if pixels is None or self.observation is None:
            raise EnvError("Call reset() before marked().")
        return draw(pixels, self.observation["elements"])

    async def paged_scan(self, max_screens: int, screenshots: bool) -> Scan:
        """Scroll through the page (`browser_env.observe.paged_scan`). The episode is not affected."""
        if self.observation is None or self.session is None:
            raise EnvError("Call reset() before paged_scan().")
        if screenshots and self.vault:
            raise ValueError("With secrets there can be no screenshots in a scan, since they could show them.")
        scan, foreign = await paged_scan(
            self.session,
            replace(self.settings.view, screenshot=screenshots),
            self.viewport,
            self.settings.bounds,
            max_screens=max_screens,
            seconds=self.settings.step_timeout,
        )
        self._foreign = {**self._foreign, **foreign}
        if self.vault:
            return replace(scan, **{item.name: self.vault.redact(getattr(scan, item.name)) for item in fields(scan)})
        return scan

    async def _teardown(self, session: Session) -> None:
        with contextlib.suppress(Exception):  # the page may be gone; the next episode doesn't depend on it
            async with asyncio.timeout(5):
                await self.task.teardown(session.active.page)

    def _leave(self) -> None:
        """Close the session without waiting for it: the caller was interrupted. The next `reset` opens a new one."""
        self.observation = None
        self._leaving = asyncio.ensure_future(self._abandon())

    async def _abandon(self) -> None:
        session, self.session = self.session, None
        if session is not None:
            await session.close(broken=True)

    async def close(self) -> None:
        """Close the session. Closing twice is fine."""
        session, self.session = self.session, None
        self.observation = None
        if session is not None:
            await self._teardown(session)
            await session.close()


def _as_text(raw: Any) -> str:
    import json

    if isinstance(raw, str):
        return well_formed(raw[:1000])
    with contextlib.suppress(TypeError, ValueError, RecursionError):
        return well_formed(str(raw.to_json() if hasattr(raw, "to_json") else json.dumps(raw))[:1000])
    with contextlib.suppress(ValueError, RecursionError):
        return well_formed(repr(raw)[:1000])
    return f"an action of type {type(raw).__name__} that can't be shown"
