"""Carries actions out the way a user would: a hit-tested mouse, a keyboard, and DOM events as the last resort.

Only says which room does what: `mouse`, `keyboard`, `fields`, `browse`. How elements are found is `reach`.
"""

from __future__ import annotations

from collections.abc import Sequence

from selfsurf.browser_env.act.browse import browse
from selfsurf.browser_env.act.fields import fill, select, upload
from selfsurf.browser_env.act.keyboard import press, type_text
from selfsurf.browser_env.act.mouse import click, drag, hover, scroll
from selfsurf.browser_env.act.reach import Reach
from selfsurf.browser_env.actions import Action, Click, Drag, Fill, Hover, Press, Scroll, Select, Type, Upload
from selfsurf.browser_env.observation import Element
from selfsurf.browser_env.session.session import Session
from selfsurf.browser_env.session.tab import Place

NAVIGATION_TIMEOUT = 15.0
"""Seconds for a server to answer a `navigate`."""


class Hands:
    """Carries out actions in a session.

    Args:
        session: where to act; the active tab is meant.
        foreign: elements in frames of another origin, with the place of the frame.
        elements: the elements of the last observation, among which selectors are looked up first.
    """

    def __init__(self, session: Session, foreign: dict[int, Place], elements: Sequence[Element] = ()) -> None:
        self.session = session
        self.reach = Reach(session, foreign, elements)

    async def resolved(self, action: Action) -> Action:
        """Return the action with its selector, if it has one, replaced by the id of the element it stands for.

        Raises:
            ActionError: no element matches the selector, or several do.
        """
        selector = getattr(action, "selector", None)
        if selector is None:
            return action
        return action.model_copy(update={"id": await self.reach.resolve(None, selector), "selector": None})

    async def perform(self, action: Action, *, at_once: bool = False) -> str:
        """Carry an action out.

        Args:
            action: what to do.
            at_once: `type` puts its text in as a whole, not key by key: it holds a secret, which the page could
                otherwise repeat piece by piece.

        Returns:
            Which way it went: `mouse`, `keyboard`, `dom` (DOM events, where no click could reach), or `browser`.

        Raises:
            ActionError: it can't be done on this page; the message tells the agent why.
        """
        from playwright.async_api import Error

        tab = self.session.active
        try:
            return await self._perform(action, at_once)
        except Error:
            if not await self.session.has_closed(tab):
                raise
            return "keyboard" if isinstance(action, Press | Type | Fill) else "mouse"  # it closed its own tab

    async def _perform(self, action: Action, at_once: bool) -> str:
        match action:
            case Click():
                return await click(self.reach, action)
            case Hover():
                return await hover(self.reach, action)
            case Drag():
                return await drag(self.reach, action)
            case Scroll():
                return await scroll(self.reach, action)
            case Fill():
                return await fill(self.reach, action)
            case Select():
                return await select(self.reach, action)
            case Upload():
                return await upload(self.reach, action)
            case Type():
                return await type_text(self.reach, action, at_once)
            case Press():
                return await press(self.reach, action)
        await browse(self.session, action, NAVIGATION_TIMEOUT)
        return "browser"
