"""The environment itself, asynchronous: reset, step, close, all on the runtime's loop.

`BrowserEnv`, `AsyncBrowserEnv` and `VectorBrowserEnv` are faces of this one class.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np

from browser_env.act import Hands
from browser_env.actions import AskUser, Fill, Finish, Infeasible, Message, Type, parse_action
from browser_env.contexts import context_source
from browser_env.delta import NO_CHANGE, make_delta
from browser_env.errors import ActionError, BrowserNotFound, EnvError
from browser_env.marks import draw
from browser_env.observation import ChatMessage, Info, Observation
from browser_env.observe import View, ViewOptions, look
from browser_env.outcome import Outcome
from browser_env.runtime import BrowserSpec
from browser_env.safety.caution import Caution, focused, host_of
from browser_env.safety.paint import paint, shown
from browser_env.safety.policy import Safety
from browser_env.safety.secrets import PLACEHOLDER, Vault
from browser_env.scan import Scan, paged_scan
from browser_env.session import DialogPolicy, Session
from browser_env.session_options import SessionOptions
from browser_env.settle import Bounds
from browser_env.task import EpisodeState, Score, Task, Viewport
from browser_env.timing import Timing
from browser_env.world import page_went_away

StepResult = tuple[Observation, float, bool, bool, Info]

ObsMode = Literal["full", "delta"]

RESET_ATTEMPTS = 2
"""Tries to bring a task to its start before a reset gives up; the second has a new browser context."""


@dataclass(frozen=True)
class Settings:
    """How an environment behaves, whatever its task."""

    browser: BrowserSpec = field(default_factory=BrowserSpec)
    view: ViewOptions = field(default_factory=ViewOptions)
    obs_mode: ObsMode = "full"
    """What `obs["dom"]` holds after a step: the outline, or what changed in it (`browser_env.delta`)."""
    bounds: Bounds = field(default_factory=Bounds)
    dialogs: DialogPolicy = "accept"
    context: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of Playwright's `Browser.new_context`: those of `session`, and further ones."""
    session: SessionOptions = field(default_factory=SessionOptions)
    """Whose browser, whose profile, recorded or replayed."""
    user: Callable[[str], str] | None = None
    """Answers `ask_user`; None: nobody is there."""
    safety: Safety = field(default_factory=Safety)
    """Where the agent may go, what it may type, read and write, and what it must ask for."""
    step_timeout: float = 30.0
    """Seconds after which a step counts as hung and the episode ends as `env_error`."""
    reset_timeout: float = 60.0
    """Seconds after which an attempt to reset counts as hung."""


class EnvCore:
    """One environment: a session, a task, the episode's state. Its coroutines run on the runtime's loop."""

    def __init__(self, task: Task, settings: Settings, viewport: Viewport) -> None:
        self.task = task
        self.settings = settings
        self.viewport = viewport
        self.max_steps: int | None = None
        """Step limit of the episode; reaching it is the outcome `timeout`."""
        self.session: Session | None = None
        self.episode = EpisodeState()
        self.observation: Observation | None = None
        self.vault = Vault(settings.safety.secrets)
        self._caution = Caution(settings.safety)
        self._ended: StepResult | None = None
        self._foreign: dict[int, Any] = {}
        self._contexts = context_source(settings.browser, settings.session)
        self._outline: tuple[Any, str] | None = None
        """With `obs_mode="delta"`: the document that was observed last, and its outline."""

    async def reset(self, rng: np.random.Generator, seed: int | None) -> tuple[Observation, Info]:
        """Start an episode.

        Raises:
            EnvError: the task could not be brought to its start, twice.
        """
        start = time.perf_counter()
        state = rng.bit_generator.state
        self._ended = None
        for attempt in range(RESET_ATTEMPTS):
            rng.bit_generator.state = state  # a second try must set up the same episode
            try:
                async with asyncio.timeout(self.settings.reset_timeout):
                    return await self._reset(rng, seed, start)
            except BrowserNotFound:
                raise
            except Exception as error:
                why = _first_line(error)
                if self.session is not None:
                    why = self.session.border.explain(why)
                await self._abandon()
                if attempt == RESET_ATTEMPTS - 1:
                    message = self.vault.redact(f"Task {self.task.id} could not be set up: {why}")
                    raise EnvError(message) from (None if self.vault else error)
        raise AssertionError("unreachable")

    async def reset_or_fail(self, rng: np.random.Generator) -> StepResult:
        """Start an episode within a step, for autoreset: what goes wrong is a typed outcome, not an exception."""
        start = time.perf_counter()
        try:
            observation, info = await self.reset(rng, None)
        except EnvError as error:
            return self._env_error("", str(error), start)
        return observation, 0.0, False, False, info

    async def _reset(self, rng: np.random.Generator, seed: int | None, start: float) -> tuple[Observation, Info]:
        session = await self._fresh_session()
        session.take_events()
        session.downloads.forget()
        self._caution.risk = None
        with session.border.set_up(session.context):
            _, goal = await asyncio.gather(session.active.rest_mouse(), self.task.setup(session.active.page, rng))
        if self.task.restarts_in_page:
            await session.active.call("forget")
        session.next_id = 1
        self._outline = None
        self.episode = EpisodeState(goal=goal, seed=seed)
        if goal:
            self.episode.messages.append(ChatMessage(role="user", text=goal))
        acted = time.perf_counter()
        view = await self._look(session, self.settings.view, self.settings.bounds)
        if self.task.restarts_in_page:
            session.take_events()  # whether the page was loaded anew or restarted is no part of the episode
        observation = await self._observation(session, view, last_action="", last_error="")
        now = time.perf_counter()
        timing = Timing(act=acted - start, settle=view.waited, observe=now - acted - view.waited, total=now - start)
        return observation, self._info(Outcome.RUNNING, "", Score(), timing, path="")

    async def _fresh_session(self) -> Session:
        session = self.session
        if session is not None:
            reusable = self.task.restarts_in_page and not session.closed and len(session.tabs) == 1
            reusable = reusable and not self.settings.session.one_context_an_episode
            if reusable and not session.active.crashed:
                return session
            self.session = None
            await self._teardown(session)
            await session.close()
        self.session = await Session.open(
            self.settings.browser,
            self.viewport,
            dialogs=self.settings.dialogs,
            sites=self.task.sites,
            options=self.settings.context,
            source=self._contexts,
            safety=self.settings.safety,
            start_url=self.task.start_url,
        )
        return self.session

    async def step(self, raw: Any) -> StepResult:
        """Carry out one action. Never raises for what a page, a browser or an agent does."""
        if self._ended is not None and self._ended[4]["outcome"] == Outcome.ENV_ERROR:
            return copy.deepcopy(self._ended)
        if self.observation is None or self.session is None:
            raise EnvError("Call reset() before step().")
        start = time.perf_counter()
        self.episode.steps += 1
        try:
            async with asyncio.timeout(self.settings.step_timeout) as self._caution.deadline:
                result = await self._step(self.session, raw, start)
        except Exception as error:
            if isinstance(error, TimeoutError):
                why = f"no answer within {self.settings.step_timeout:g} s: the page or the browser hangs"
            else:
                why = _first_line(error)
            result = self._env_error(raw, why, start)
            await self._abandon()
        if result[2] or result[3]:
            self._ended = result
        return result

    async def _step(self, session: Session, raw: Any, start: float) -> StepResult:
        tab, since = session.active, session.active.clock
        last_error, path, last_action = "", "", ""
        session.border.begin()
        self._caution.risk = None
        try:
            action = parse_action(raw)
            self.episode.last_action = action
            last_action = action.to_json()
            path = await self._do(session, action)
        except ActionError as error:
            last_error = str(error)
            last_action = last_action or _as_text(raw)
        acted = time.perf_counter()
        await session.attached()
        since = since if session.active is tab else -1
        scoring = _Scoring(self.task, session, self.episode)
        view = await self._look(session, self.settings.view, self.settings.bounds, since, scoring.read)
        await session.downloads.ended()
        last_error = session.border.navigation or last_error
        score = scoring.score
        observation = await self._observation(session, view, last_action=last_action, last_error=last_error)
        now = time.perf_counter()
        outcome = self._judge(score)
        detail = last_error
        terminated = outcome not in (Outcome.RUNNING, Outcome.TIMEOUT)
        timing = Timing(
            act=acted - start,
            settle=view.waited,
            score=scoring.seconds,
            observe=now - acted - view.waited,
            total=now - start,
        )
        info = self._info(outcome, detail, score, timing, path)
        return observation, float(score.reward), terminated, outcome is Outcome.TIMEOUT, info

    async def _do(self, session: Session, action: Any) -> str:
        episode = self.episode
        match action:
            case Finish():
                episode.finished, episode.answer = True, action.answer
                episode.messages.append(ChatMessage(role="assistant", text=action.answer))
            case Infeasible():
                episode.finished, episode.infeasible = True, True
                episode.messages.append(ChatMessage(role="assistant", text=action.reason))
            case Message():
                episode.messages.append(ChatMessage(role="assistant", text=action.text))
            case AskUser():
                episode.messages.append(ChatMessage(role="assistant", text=action.question))
                if self.settings.user is None:
                    raise ActionError("Nobody is there to answer; decide yourself.")
                answer = await asyncio.to_thread(self.settings.user, action.question)
                episode.messages.append(ChatMessage(role="user", text=answer))
            case _:
                await self._caution.permit(session, action, self.observation, self._foreign)
                filled = await self._with_secrets(session, action)
                return await Hands(session, self._foreign, at_once=filled is not action).perform(filled)
        return "chat"

    async def _with_secrets(self, session: Session, action: Any) -> Any:
        """Put values in the place of `<secret:name>` in what is to be typed."""
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

    async def _observation(self, session: Session, view: View, *, last_action: str, last_error: str) -> Observation:
        self._foreign = view.foreign
        observation = Observation(
            goal=self.episode.goal,
            url=view.url,
            title=view.title,
            tabs=view.tabs,
            elements=view.elements,
            dom=view.dom if self.settings.obs_mode == "full" else await self._changes(session, view.dom),
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

    async def _look(self, session: Session, options: ViewOptions, *settling: Any) -> View:
        """Look at the page; where there are secrets, what shows them before or after is painted over."""
        if not (self.vault and options.screenshot):
            return await look(session, options, self.viewport, *settling)
        settled = await look(session, replace(options, screenshot=False), self.viewport, *settling)
        tab = session.active
        before = await shown(tab, self.vault.patterns)
        view = await look(session, options, self.viewport)
        after = await shown(tab, self.vault.patterns)
        view.waited = settled.waited
        if view.screenshot is not None:
            view.screenshot = paint(view.screenshot, [*before, *after])
        return view

    async def _changes(self, session: Session, outline: str) -> str:
        """Return what changed in the outline since the last observation; the first of an episode is whole."""
        tab = session.active
        frames = await tab.protocol.send("Page.getFrameTree")
        document = (tab, frames["frameTree"]["frame"]["loaderId"])
        last, self._outline = self._outline, (document, outline)
        if last is None:
            return outline
        return make_delta(last[1], outline, new_page=last[0] != document, count=self.settings.view.count)

    def _env_error(self, raw: Any, why: str, start: float) -> StepResult:
        assert self.observation is not None
        observation = copy.deepcopy(self.observation)
        if self._outline is not None:
            observation["dom"] = NO_CHANGE  # nothing was seen
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
        if self._caution.risk is not None:
            info["risk"] = asdict(self._caution.risk)
        return self.vault.redact(info) if self.vault else info

    @property
    def downloads(self) -> tuple[str, ...]:
        """Paths of the files that this episode has downloaded."""
        return tuple(map(str, self.session.downloads.files)) if self.session is not None else ()

    def privileged(self) -> dict[str, Any] | None:
        """Return what the task's oracle would do here, and why: `{"action", "reason"}`, or None."""
        if self.observation is None or self._ended is not None:
            return None
        action = self.task.oracle(self.observation)
        if action is None:
            return None
        told: dict[str, Any] = self.vault.redact({"action": action.to_dict(), "reason": action.reason})
        return told

    async def screenshot(self) -> Any:
        """Return the active tab as an RGB array, from the last observation or newly taken; None before a reset."""
        if self.observation is None:
            return None
        if "screenshot" in self.observation:
            return self.observation["screenshot"]
        if self.session is None:
            return None
        view = await self._look(self.session, replace(self.settings.view, screenshot=True, stamp_ids=False))
        return view.screenshot

    async def storage_state(self) -> dict[str, Any]:
        """Return the session's cookies, localStorage and IndexedDB, as `SessionOptions.storage_state` takes them.

        Raises:
            EnvError: there is no session, or it is lost.
        """
        if self.session is None:
            raise EnvError("Call reset() before storage_state().")
        try:
            async with asyncio.timeout(self.settings.step_timeout):
                return dict(await self.session.context.storage_state(indexed_db=True))
        except Exception as error:
            raise EnvError(f"The storage can't be read: {_first_line(error)}.") from error

    async def marked(self) -> Any:
        """Return the screenshot with the elements of the last observation marked (`browser_env.marks`)."""
        pixels = await self.screenshot()
        if pixels is None or self.observation is None:
            raise EnvError("Call reset() before marked().")
        return draw(pixels, self.observation["elements"])

    async def paged_scan(self, max_screens: int, screenshots: bool) -> Scan:
        """Walk through the page (`browser_env.scan`). The episode goes on as if nothing had happened."""
        if self.observation is None or self.session is None:
            raise EnvError("Call reset() before paged_scan().")
        if screenshots and self.vault:
            raise ValueError("With secrets there are no screenshots in a scan: they could show them.")
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
        with contextlib.suppress(Exception):  # the page may be gone; nothing the next episode needs depends on it
            async with asyncio.timeout(5):
                await self.task.teardown(session.active.page)

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


class _Scoring:
    """Asks the task for its verdict while the observation is still being made."""

    def __init__(self, task: Task, session: Session, episode: EpisodeState) -> None:
        self.score = Score()
        self.seconds = 0.0
        self._task = task
        self._session = session
        self._episode = episode

    async def read(self) -> None:
        start = time.perf_counter()
        try:
            self.score = await self._task.score(self._session.active.page, self._episode)
        except Exception as error:
            if not page_went_away(error):
                raise
            # The page left just now; what it was replaced by is asked.
            with contextlib.suppress(Exception):
                await self._session.active.page.wait_for_load_state("domcontentloaded", timeout=3000)
            self.score = await self._task.score(self._session.active.page, self._episode)
        self.seconds = time.perf_counter() - start


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def _as_text(raw: Any) -> str:
    import json

    if isinstance(raw, str):
        return raw[:1000]
    try:
        return raw.to_json() if hasattr(raw, "to_json") else json.dumps(raw)[:1000]
    except (TypeError, ValueError):
        return repr(raw)[:1000]
