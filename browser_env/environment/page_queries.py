"""Queries of an environment outside of its steps: screenshots, storage, text search, scans of long pages."""

from __future__ import annotations

import asyncio
import os
from dataclasses import fields, replace
from typing import Any

from selfsurf.browser_env.act.perform import resolved
from selfsurf.browser_env.act.targets import Targets
from selfsurf.browser_env.actions import Action, Finish, parse_action
from selfsurf.browser_env.environment.confirm import Confirmer
from selfsurf.browser_env.environment.observer import Observer
from selfsurf.browser_env.environment.settings import Settings
from selfsurf.browser_env.errors import ActionError, EnvError
from selfsurf.browser_env.human_input import Risk
from selfsurf.browser_env.observation import Observation
from selfsurf.browser_env.observe.capture import TextSearch, View
from selfsurf.browser_env.observe.find import SCALES, TextMatch, find_in, suffices
from selfsurf.browser_env.observe.marks import draw
from selfsurf.browser_env.observe.paged_scan import Scan, paged_scan
from selfsurf.browser_env.safety.secrets import Vault
from selfsurf.browser_env.session.deadline import deadline
from selfsurf.browser_env.session.session import Session
from selfsurf.browser_env.session.storage import add_session_storage
from selfsurf.browser_env.task import EpisodeState, Task, Viewport
from selfsurf.browser_env.text import first_line


class PageQueries:
    """The part of an `EnvCore` that queries the page without changing the episode."""

    settings: Settings
    viewport: Viewport
    observation: Observation | None
    episode: EpisodeState
    vault: Vault
    task: Task
    foreign: dict[int, Any]
    _ended: Any
    _observer: Observer
    _confirmer: Confirmer
    _session: tuple[int, Session] | None = None
    """The open session and the id of the process that opened it; None if no session is open."""

    @property
    def session(self) -> Session | None:
        """The open browser session; None in a fork of the process that opened it."""
        return self._session[1] if self._session is not None and self._session[0] == os.getpid() else None

    @session.setter
    def session(self, session: Session | None) -> None:
        self._session = None if session is None else (os.getpid(), session)

    async def screenshot(self) -> Any:
        """Return the active tab as an RGB array, from the last observation or a new screenshot; None before a reset.

        Raises:
            EnvError: the page hangs or has crashed.
        """
        if self.observation is None:
            return None
        if "screenshot" in self.observation:
            return self.observation["screenshot"]
        return None if self.session is None else (await self.glance()).screenshot

    async def glance(self) -> View:
        """Observe the page as it is, with a screenshot, outside of a step.

        Raises:
            EnvError: there is no session, or the page hangs or has crashed.
        """
        session = self.session
        if session is None:
            raise EnvError("Call reset() before glance().")
        async with deadline(self.settings.step_timeout, self.settings.hang_timeout, lambda: session):
            return await self._observer.glance(session)

    async def peek(self) -> Observation:
        """Return an observation of the page as it is now, without waiting. The episode doesn't include it.

        Raises:
            EnvError: there is no observation yet, or the page hangs or has crashed.
        """
        if self.observation is None:
            raise EnvError("Call reset() before peek().")
        view = await self.glance()
        of_page = {"url", "title", "tabs", "elements", "dom", "page_text", "screenshot"} & self.observation.keys()
        now = {name: getattr(view, name) for name in of_page}
        return self.vault.redact_observation(Observation(**{**self.observation, **now}))  # type: ignore[typeddict-item]

    async def storage_state(self) -> dict[str, Any]:
        """Return the session's cookies and storage in the form that `SessionOptions.storage_state` takes.

        The session storage is that of the pages open in the tabs.

        Raises:
            EnvError: there is no session, or it was lost.
        """
        session = self.session
        if session is None:
            raise EnvError("Call reset() before storage_state().")
        try:
            async with asyncio.timeout(self.settings.step_timeout):
                tabs = sorted(session.tabs, key=lambda tab: tab is not session.active)
                return await add_session_storage(await session.context.storage_state(indexed_db=True), tabs)
        except Exception as error:
            raise EnvError(f"The storage can't be read: {first_line(error)}.") from error

    async def address(self) -> str:
        """Return the address of the active tab's last page reached without submitting a form; empty for none."""
        if self.session is None:
            return ""
        try:
            async with asyncio.timeout(1):
                history = await self.session.active.protocol.send("Page.getNavigationHistory")
        except Exception:  # the page hangs or is gone
            return ""
        visited = history["entries"][: history["currentIndex"] + 1]
        return next((each["url"] for each in reversed(visited) if each["transitionType"] != "form_submit"), "")

    async def find(self, text: str, around: int, most: int) -> tuple[TextMatch, ...]:
        """Return the first lines of the whole page that contain a text (`browser_env.observe.find`)."""
        session = self.session
        if session is None or self.observation is None:
            raise EnvError("Call reset() before find().")
        async with deadline(self.settings.step_timeout, self.settings.hang_timeout, lambda: session):
            for scale in SCALES:
                seek = None
                if scale is not None:
                    seek = TextSearch(text.casefold(), scale * (around + 4), scale * (4 * most + 20), bool(self.vault))
                view = await self._observer.whole(session, seek)
                _, dom = self.vault.mask_split(view.elements, view.dom)
                found = find_in(dom, text, around=around, most=most)
                if suffices(dom, text, around=around, most=most):
                    break
        self.foreign = {**self.foreign, **view.foreign}
        return tuple(TextMatch(*self.vault.redact(list(one))) for one in found) if self.vault else found

    async def marked(self) -> Any:
        """Return the screenshot with the elements of the last observation marked (`browser_env.observe.marks`)."""
        pixels = await self.screenshot()
        if pixels is None or self.observation is None:
            raise EnvError("Call reset() before marked().")
        return draw(pixels, self.observation["elements"])

    async def judge(self, action: Action) -> tuple[Risk | None, bool]:
        """Return an action's risk on the current page, if any, and whether a step would ask a person first."""
        if self.observation is None or self.session is None:
            raise EnvError("Call reset() before judge().")
        targets = Targets(self.session, self.foreign, self.observation["elements"])
        try:
            async with asyncio.timeout(self.settings.step_timeout):
                action = await resolved(targets, action)
                _, risk = await self._confirmer.judge(targets, action, self.observation)
        except ActionError:  # the selector matches no element or several, so a step would do nothing
            risk = None
        return risk, risk is not None and self.settings.safety.confirm is not None

    def privileged(self) -> dict[str, Any] | None:
        """Return the oracle's next action and its reason, `{"action", "reason"}`; None if the oracle has none."""
        if self.observation is None or self._ended is not None or self.task.oracle is None:
            return None
        over = self.episode.over and self.task.ends == "finish"
        told = Finish(reason="Nothing is left to do.") if over else self.task.oracle(self.observation)
        if told is None:
            return None
        action = parse_action(told)
        view: dict[str, Any] = self.vault.redact({"action": action.to_dict(), "reason": action.reason})
        return view

    async def paged_scan(self, max_screens: int, screenshots: bool) -> Scan:
        """Scan the page by scrolling through it (`browser_env.observe.paged_scan`). The episode is not affected."""
        if self.observation is None or self.session is None:
            raise EnvError("Call reset() before paged_scan().")
        if screenshots and self.vault:
            raise ValueError("A scan with secrets can't have screenshots, because they could show the secrets.")
        scan, foreign = await paged_scan(
            self.session,
            replace(self.settings.view, screenshot=screenshots),
            self.viewport,
            self.settings.bounds,
            max_screens=max_screens,
            seconds=self.settings.step_timeout,
        )
        self.foreign = {**self.foreign, **foreign}
        if self.vault:
            elements, dom = self.vault.mask_split(scan.elements, scan.dom)
            scan = replace(scan, elements=elements, dom=dom)
            return replace(scan, **{item.name: self.vault.redact(getattr(scan, item.name)) for item in fields(scan)})
        return scan
