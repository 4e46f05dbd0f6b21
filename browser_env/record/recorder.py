"""Recording of a person's actions in a browser window as an episode, in the same format as an agent's.

Facts about input come from `browser_env.session.input_listener`, facts about tabs and addresses from
`browser_env.record.tab_watcher`; `browser_env.record.gestures` turns them into actions. While nothing happens, the
observation is kept up to date. At the moment of an action it is taken again in the page, before the page reacts.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from selfsurf.browser_env.actions import Action, CloseTab, Fill, Finish, FocusTab, NewTab, Select, Type
from selfsurf.browser_env.browser.runtime import runtime
from selfsurf.browser_env.environment.confirm import focused
from selfsurf.browser_env.environment.core import EnvCore
from selfsurf.browser_env.environment.env import AsyncBrowserEnv, BrowserEnv
from selfsurf.browser_env.observation import Element, Observation
from selfsurf.browser_env.outcome import Outcome
from selfsurf.browser_env.outline import focused_states, with_focus, without_focus
from selfsurf.browser_env.record.episode import EpisodeWriter
from selfsurf.browser_env.record.gestures import Draft, Gestures
from selfsurf.browser_env.record.tab_watcher import TabWatcher
from selfsurf.browser_env.safety.secrets import PLACEHOLDER, redact_known
from selfsurf.browser_env.session.input_listener import InputListener
from selfsurf.browser_env.session.tab import Tab

QUIET = 0.15
"""Seconds without input after which the page is observed."""

WRITE_AFTER = 0.6
"""Seconds after which a click can no longer become a double click and is written."""

SWITCHING = 1.0
"""Seconds after a tab opens during which mouse movement in the previous tab is ignored."""

EARLY = "input arrived before the page was observed, so the previous observation may already show its effect"

LAST_EVENTS = 2.0
"""Seconds to wait for the pages' last events at the end of a recording."""

_FILLS = Fill | Select | Type

Fact = tuple[Tab | None, dict[str, Any], int]

_END: Fact = (None, {"kind": "end"}, 0)


class Recorder:
    """A recorder of one episode: `start`, let the person act, `wait` until the end, then `finish`.

    Args:
        env: an environment with a window (`headless=False`) that has not been reset; with `dialogs="leave"` the person
            answers dialogs, for which `step_timeout` and `hang_timeout` have to allow time.
        folder: where to write the episode; must not contain an episode.
        meta: additional metadata, as for `EpisodeWriter`.
        shown: called with each recorded step: `step`, `action` (JSON text), `element` (role and name).

    Raises:
        EpisodeError: the folder contains an episode.
    """

    def __init__(
        self,
        env: BrowserEnv | AsyncBrowserEnv,
        folder: str | Path,
        *,
        meta: Mapping[str, Any] | None = None,
        shown: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        self.core: EnvCore = env.core
        self.core.max_steps = None
        self.folder = Path(folder)
        self.outcome = Outcome.RUNNING
        self.reward = 0.0
        self.steps = 0
        self._meta = dict(meta or {})
        self._shown = shown or (lambda step: None)
        self._gestures = Gestures()
        self._tabs = TabWatcher(self._on_fact)
        view = self.core.settings.view
        self._listener = InputListener(self._on_fact, view.reach, view.limits)
        self._facts: asyncio.Queue[Fact] = asyncio.Queue()
        self._over = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None
        self._preparing: set[asyncio.Task[None]] = set()
        self._latest: Observation
        self._edition = ""
        self._dirty = False
        self._stray: list[str] = []
        self._last: tuple[str, tuple[str, ...]] = ("", ())
        self._focus: int | None = None
        """ID of the element that had the focus after the last action."""
        self._reported_at = self._tab_at = 0.0
        self._info: dict[str, Any] = {}
        self.core.on_tab = self._new_tab

    def start(self, seed: int | None = None) -> Observation:
        """Open the window, set up the task and start recording.

        Raises:
            EnvError: the environment could not be reset.
        """
        return runtime().run(self._start(seed))

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the window is closed or the task has ended; return False after `timeout` seconds."""

        async def over() -> bool:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), timeout)
            return self._over.is_set()

        return runtime().run(over())

    def finish(self, outcome: Outcome | str | None = None, answer: str = "") -> dict[str, Any]:
        """End the recording: write the open actions, then close the episode and the window.

        Args:
            outcome: the person's verdict, used if the task sets no outcome; `solved` adds a last step `finish`.
            answer: answer of that step.

        Returns:
            A summary: `episode`, `steps`, `outcome`, `reward`, `trainable`.
        """
        return runtime().run(self._finish(None if outcome is None else Outcome(outcome), answer))

    async def _start(self, seed: int | None) -> Observation:
        seed = int(np.random.default_rng().integers(2**31)) if seed is None else seed
        self._latest, self._info = await self.core.reset(seed)
        self._focus = focused(self._latest)
        while not self._facts.empty():
            self._facts.get_nowait()  # the task's setup is not recorded
        for tab in self._session.tabs:
            await self._tabs.remember(tab)
        about = {"seed": seed, "goal": self._latest["goal"], "url": self._latest["url"], "recorded": True}
        self._writer = EpisodeWriter(self.folder, {**about, "viewport": list(self.core.viewport), **self._meta})
        await self._note_edition()
        self._worker = asyncio.ensure_future(self._work())
        return self._latest

    @property
    def _session(self) -> Any:
        return self.core.session

    async def _new_tab(self, tab: Tab) -> None:
        await tab.tell(self._listener)
        await self._tabs.watch(tab)

    def _on_fact(self, tab: Tab, fact: dict[str, Any]) -> None:
        fact["at_time"] = time.monotonic()
        self._facts.put_nowait((tab, fact, tab.clock))
        if fact["kind"] not in ("here", "nav", "tab", "closed", "event", "scroll"):
            self._tabs.acted(tab)
        if fact["kind"] == "tab":
            self._tab_at = fact["at_time"]
        if fact["kind"] in ("nav", "tab"):
            self._preparing.add(task := asyncio.ensure_future(self._prepare(tab)))
            task.add_done_callback(self._preparing.discard)
        if fact["kind"] == "closed" and self._session is not None and not self._open_tabs():
            self._facts.put_nowait(_END)  # ends the recording after the input queued so far

    async def _prepare(self, tab: Tab) -> None:
        """Install the script in a new document at once, because input may precede the first observation."""
        with contextlib.suppress(Exception):  # the document may be gone again
            await tab.call("idAt", path=[], firstId=self._session.next_id if self._session is not None else 1)

    def _open_tabs(self) -> list[Tab]:
        return [tab for tab in self._session.tabs if not tab.page.is_closed()] if self._session is not None else []

    async def _work(self) -> None:
        try:
            while not self._over.is_set():
                try:
                    tab, fact, since = await asyncio.wait_for(self._facts.get(), QUIET)
                except TimeoutError:
                    await self._idle()
                    continue
                if tab is None:
                    break
                if fact["kind"] != "here":
                    self._reported_at = time.monotonic()
                await self._take(tab, fact, since)
        finally:
            self._over.set()

    async def _take(self, tab: Tab, fact: dict[str, Any], since: int) -> None:
        kind, closed = fact["kind"], not self._open_tabs()
        if closed and (kind in ("tab", "closed") or tab is not self._was_active):
            return  # closing the window is not an action
        if kind == "early":
            fact = {"kind": "event", "event": EARLY}
        if fact["kind"] == "event":
            draft = self._gestures.draft
            (draft.events if draft is not None else self._stray).append(fact["event"])
            return
        if kind in ("nav", "tab", "closed"):
            await self._browser_fact(tab, fact)
            return
        if tab not in self._session.tabs and not closed:
            if kind == "here" or tab is not self._was_active:
                return
            # the tab closed itself at once, as a popup does after its "Allow"
        elif tab is not self._session.active and not closed:
            if kind == "here" and fact["at_time"] - self._tab_at < SWITCHING:
                return
            index = self._session.tabs.index(tab)
            self._session.active = tab
            await self._begin(FocusTab(index=index))
        if kind == "here":
            return
        self._dirty = True
        before = await self._seen(tab, fact.pop("raw", None))
        await self._write_all(self._gestures.add(fact, before, since), before)

    async def _seen(self, tab: Tab, raw: dict[str, Any] | None) -> Observation:
        """Return the observation at the moment of an action."""
        if raw is None:
            return self._latest
        try:
            seen = await self.core.witness(raw, tab)
        except Exception:
            return self._latest  # the page was replaced while its frames were being observed
        if "screenshot" in self._latest:
            seen["screenshot"] = self._latest["screenshot"]
        if tab.page.is_closed():
            seen["tabs"] = self._latest["tabs"]
        self._keep_events(seen)
        return seen

    async def _browser_fact(self, tab: Tab, fact: dict[str, Any]) -> None:
        """Process an event of a tab: a navigation, or the opening or closing of the tab."""
        if fact["kind"] == "nav":
            for action in await self._tabs.action_of(tab, fact):
                await self._begin(action)
            await self._write_all(self._gestures.page_left(), None)
            self._dirty = True
        elif fact["kind"] == "tab":
            await self._session.attached()
            if not fact["own"]:
                url = tab.page.url
                await self._begin(NewTab(url=url if url.startswith(("http://", "https://")) else ""))
        elif not fact["own"]:
            if self._was_active is not tab and tab in self._order:
                await self._begin(FocusTab(index=self._order.index(tab)))
            await self._begin(CloseTab())

    async def _begin(self, action: Action) -> None:
        """Open an action without a target element."""
        await self._write_all(self._gestures.begin(Draft(action, self._latest)), self._latest)
        draft = self._gestures.draft
        if draft is not None:
            await self._settle(draft)

    async def _idle(self) -> None:
        """Observe the page after a pause in the input, and write completed actions."""
        if not self._open_tabs():
            self._over.set()
            return
        await self._write_all(self._gestures.add({"kind": "tick"}, self._latest), None)
        draft = self._gestures.draft
        if draft is not None and draft.result is None:
            await self._settle(draft)
        elif draft is not None and self._is_over(draft):
            self._gestures.complete()
            await self._write(draft, None)
        else:
            await self._refresh()

    def _is_over(self, draft: Draft) -> bool:
        ended = draft.result is not None and (draft.result[2] or draft.result[3])
        return ended or (not draft.held and time.monotonic() - self._reported_at > WRITE_AFTER)

    async def _refresh(self) -> None:
        """Observe the page again if it has changed."""
        with contextlib.suppress(Exception):  # the page is changing: the next attempt will succeed
            edition = await asyncio.wait_for(self._session.active.call("edition"), 5)
            if edition == self._edition and not self._dirty:
                return
            self._dirty = False
            seen = await self.core.witness()
            self._keep_events(seen)
            if not any(fact["kind"] == "nav" for _, fact, _ in self._facts._queue):  # type: ignore[attr-defined]
                self._latest = seen
            await self._note_edition()

    async def _note_edition(self) -> None:
        session = self._session
        self._was_active, self._order = session.active, list(session.tabs)
        with contextlib.suppress(Exception):
            self._edition = await asyncio.wait_for(session.active.call("edition"), 5)
            if len(session.active.page.frames) > 1:  # ids in frames of other origins must not be reused
                await session.active.call("idAt", path=[], firstId=session.next_id)

    def _keep_events(self, seen: Observation) -> None:
        draft = self._gestures.draft
        (draft.events if draft is not None else self._stray).extend(seen["events"])

    async def _settle(self, draft: Draft) -> None:
        """Wait for an action's consequences, and have the environment score the action."""
        self._learn(draft)
        self._dirty = False
        if not self._open_tabs():
            draft.result = (self._latest, 0.0, False, False, self._info)
            return
        result = await self.core.witnessed(draft.action, draft.since, self.steps + 1)
        draft.result, self._info = result, result[4]
        draft.events.extend(result[0]["events"])
        if self.core.session is None:  # the browser is lost
            self._over.set()
            self.outcome = Outcome.ENV_ERROR
            return
        self._latest = result[0]
        await self._note_edition()

    def _learn(self, draft: Draft) -> None:
        """Redact a typed secret in all later records, and stop redacting the prefixes typed before it."""
        name = PLACEHOLDER.search(draft.action.to_json())
        if not draft.secret or name is None:
            return
        if self.core.vault.learn(name[1], draft.secret):
            draft.learned.append(draft.secret)
        values = {*draft.learned, draft.secret}
        for part in values - {draft.secret}:
            if any(value.startswith(part) for value in values - {part}):
                self.core.vault.forget(name[1], part)
                draft.learned.remove(part)

    async def _write_all(self, drafts: list[Draft], then: Observation | None) -> None:
        for draft in drafts:
            await self._write(draft, then)

    async def _write(self, draft: Draft, then: Observation | None) -> None:
        """Write a completed action. `then` is the observation when the next action began."""
        if self._over.is_set() and self.outcome is not Outcome.RUNNING:
            return
        if draft.result is None:
            await self._settle(draft)
        else:
            then = None
        self._learn(draft)
        seen, reward, terminated, truncated, info = draft.result
        if draft.doubtful and not reward and not terminated and not _changed(draft.before, seen):
            return
        action, events = draft.action.to_json(), (*self._stray, *draft.events)
        self._stray = []
        said: Any = {"last_action": self._last[0], "last_error": "", "events": self._last[1]}
        before: Observation = {**self._before(draft), **said}
        after: Observation = {**(then or seen), "last_action": action, "last_error": "", "events": events}
        self._last = (action, events)
        self._focus = focused(seen)
        if isinstance(draft.action, _FILLS) and any(one["id"] == draft.action.id for one in seen["elements"]):
            self._focus = draft.action.id
        self._writer.step(before, draft.action, reward=reward, info=info, after=after, time=draft.begun)
        self.reward += reward
        summary = {"step": self.steps, "action": action, "element": _named(draft)}
        self.steps += 1
        self._shown(redact_known(summary))
        if terminated or truncated:
            self.outcome = Outcome(info["outcome"])
            self._over.set()

    def _before(self, draft: Draft) -> Observation:
        """Return the observation before an action, with the focus where the last action left it.

        A person moves to the next field with Tab, which is not recorded. From the moved focus an agent would learn to
        fill whichever field has it.
        """
        seen, focus = draft.before, focused(draft.before)
        if not isinstance(draft.action, _FILLS) or focus is None or focus != draft.action.id or focus == self._focus:
            return seen
        elements: list[Element] = [
            {**one, "states": tuple(focused_states(one["states"], one["id"] == self._focus))}
            for one in seen["elements"]
        ]
        return {**seen, "dom": with_focus(seen["dom"], self._focus), "elements": tuple(elements)}

    async def _finish(self, said: Outcome | None, answer: str) -> dict[str, Any]:
        if not self._over.is_set():
            if self._preparing:
                await asyncio.wait(self._preparing, timeout=LAST_EVENTS)
            await asyncio.gather(*(tab.caught_up(LAST_EVENTS) for tab in self._open_tabs()))
        self._facts.put_nowait(_END)
        failed = await asyncio.gather(*filter(None, [self._worker]), return_exceptions=True)
        if self.outcome is Outcome.RUNNING:
            await self._write_all(self._gestures.finish(), None)
        judged = self.outcome is not Outcome.RUNNING
        if not judged:
            self.outcome = said or Outcome.STOPPED
            if said is Outcome.SOLVED:
                self._write_finish(answer)
        final: Observation = {**self._latest, "last_action": self._last[0], "events": self._last[1]}
        trainable = self.outcome.trainable
        score = self._info.get("score", {})
        self._writer.finish(str(self.outcome), trainable=trainable, after=final, score=score, judged=judged)
        await self.core.close()
        for error in failed:  # raised last, so that the recording is kept
            if error is not None:
                raise error
        summary = {"steps": self.steps, "outcome": str(self.outcome), "reward": self.reward, "trainable": trainable}
        return {"episode": str(self.folder), **summary}

    def _write_finish(self, answer: str) -> None:
        action = Finish(answer=answer)
        before: Observation = {**self._latest, "last_action": self._last[0], "last_error": "", "events": self._last[1]}
        after: Observation = {**before, "last_action": action.to_json(), "events": ()}
        info = {**self._info, "outcome": str(Outcome.SOLVED)}
        self._writer.step(before, action, reward=1.0 - self.reward, info=info, after=after)
        self._last = (action.to_json(), ())
        self._shown(redact_known({"step": self.steps, "action": action.to_json(), "element": ""}))
        self.steps += 1
        self.reward = 1.0


def _changed(before: Observation, after: Observation) -> bool:
    """Whether an action had a visible effect. A change of focus does not count."""
    outlines = [without_focus(seen["dom"]) for seen in (before, after)]
    return outlines[0] != outlines[1] or before["url"] != after["url"] or len(before["tabs"]) != len(after["tabs"])


def _named(draft: Draft) -> str:
    id = getattr(draft.action, "id", None)
    for element in draft.before["elements"]:
        if element["id"] == id:
            return f'{element["role"]} "{element["name"]}"'
    return ""
