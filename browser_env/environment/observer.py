"""Observation of an environment's page, repeated if the page is replaced, with secrets masked in screenshots."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from selfsurf.browser_env.act.settle import Hint, Settling
from selfsurf.browser_env.environment.settings import Settings
from selfsurf.browser_env.errors import TaskHangs
from selfsurf.browser_env.observe.capture import TextSearch, View, ViewOptions, capture
from selfsurf.browser_env.observe.delta import make_delta
from selfsurf.browser_env.observe.masking import mask, secret_boxes
from selfsurf.browser_env.safety.secrets import Vault
from selfsurf.browser_env.session.session import Session
from selfsurf.browser_env.task import Viewport

LOOKS = 8
"""Maximum number of attempts to observe a page that keeps being replaced."""


class Observer:
    """Observer of one environment's page.

    Args:
        settings: settings of the environment.
        viewport: size of the screenshots.
        vault: secrets that no screenshot may show.
    """

    def __init__(self, settings: Settings, viewport: Viewport, vault: Vault) -> None:
        self._settings = settings
        self._viewport = viewport
        self._vault = vault
        self._outline: tuple[Any, str] | None = None

    def start_episode(self) -> None:
        """Start an episode, whose first outline is reported whole."""
        self._outline = None

    @property
    def reports_changes(self) -> bool:
        """Whether the next outline will be reported as a change to the previous one."""
        return self._outline is not None

    async def look(
        self, session: Session, since: int = -1, meanwhile: Callable[[], Awaitable[None]] | None = None, hint: Hint = ""
    ) -> View:
        """Wait until the page is quiet and observe it (`browser_env.observe.capture.capture`).

        If the page is replaced, or tabs open or close meanwhile, the observation is repeated.
        """
        options, bounds = self._settings.view, self._settings.bounds
        for attempt in range(LOOKS):
            try:
                acted_in = session.acted_in if since >= 0 else None
                settling = Settling(session.active, bounds, since, hint, acted_in)
                view = await self._see(session, options, settling, meanwhile)
                if not view.closing or attempt == LOOKS - 1 or not await session.has_closed(settling.tab):
                    return view
            except TaskHangs:
                raise
            except Exception as error:
                browser = session.context.browser
                lost = session.active.crashed or browser is None or not browser.is_connected()
                if lost or attempt == LOOKS - 1:
                    raise
                await session.attached()
                if "has been closed" in str(error):  # the session ended before Playwright noticed
                    await session.has_closed(session.active)
                since, hint, bounds = -1, "", replace(bounds, load=0.5, network=0.0, quiet=0.1)
        raise AssertionError("unreachable")

    async def glance(self, session: Session) -> View:
        """Observe the page as it is, with a screenshot, without waiting."""
        return await self._see(session, replace(self._settings.view, screenshot=True, stamp_ids=False))

    async def whole(self, session: Session, seek: TextSearch | None = None) -> View:
        """Observe the whole page as it is, however long, without a screenshot and without waiting.

        Args:
            session: session whose active tab is observed.
            seek: text to which the observation is limited; None to observe everything.
        """
        options = replace(self._settings.view, screenshot=False, stamp_ids=False, reach=None, budget=None, seek=seek)
        return await self._see(session, options)

    async def _see(
        self,
        session: Session,
        options: ViewOptions,
        settling: Settling | None = None,
        meanwhile: Callable[[], Awaitable[None]] | None = None,
    ) -> View:
        if not (self._vault and options.screenshot):
            return await capture(session, options, self._viewport, settling, meanwhile)
        settled = await capture(session, replace(options, screenshot=False), self._viewport, settling, meanwhile)
        tab = session.active
        before = await secret_boxes(tab, self._vault.patterns)
        view = await capture(session, options, self._viewport)
        after = await secret_boxes(tab, self._vault.patterns)
        view.waited = settled.waited
        if view.screenshot is not None:
            view.screenshot = mask(view.screenshot, [*before, *after])
        return view

    def outline(self, session: Session, view: View) -> str:
        """Return the outline for the agent, or with `obs_mode="delta"` its changes."""
        if self._settings.obs_mode == "full":
            return view.dom
        document = (session.active, session.active.document)
        last, self._outline = self._outline, (document, view.dom)
        if last is None:
            return view.dom
        return make_delta(last[1], view.dom, new_page=last[0] != document, count=self._settings.view.count)
