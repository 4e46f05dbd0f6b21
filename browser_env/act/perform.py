"""Execution of actions the way a user would: hit-tested mouse, keyboard, and DOM events as the last resort.

Only dispatches to `mouse`, `keyboard`, `fields` and `browse`. `targets` finds the elements to act on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from selfsurf.browser_env.act.browse import NAVIGATION_TIMEOUT, browse
from selfsurf.browser_env.act.drag import drag
from selfsurf.browser_env.act.fields import fill, select, upload
from selfsurf.browser_env.act.keyboard import press, type_text
from selfsurf.browser_env.act.mouse import click, hover, scroll
from selfsurf.browser_env.act.targets import Targets
from selfsurf.browser_env.actions import Action, Fill, Press, Type

_AT_PAGE: dict[str, Callable[[Targets, Any], Awaitable[str]]] = {
    "click": click, "hover": hover, "drag": drag, "scroll": scroll, "fill": fill, "select": select, "upload": upload,
    "press": press,
}  # fmt: skip
"""Functions that carry out actions on the page, except `type`, which takes more arguments."""


async def resolved(targets: Targets, action: Action) -> Action:
    """Return the action with its selector, if any, replaced by the id of the element.

    Raises:
        ActionError: no element matches the selector, or several do.
    """
    selector = getattr(action, "selector", None)
    if selector is None:
        return action
    return action.model_copy(update={"id": await targets.resolve(None, selector), "selector": None})


async def perform(targets: Targets, action: Action, *, at_once: bool = False) -> str:
    """Carry out an action.

    Args:
        targets: the page to act on.
        action: the action.
        at_once: whether `type` inserts its text as a whole and not key by key, because it holds a secret, which the
            page could otherwise repeat piece by piece.

    Returns:
        How the action was carried out: `mouse`, `keyboard`, `dom` (DOM events, where no click could reach), or
        `browser`.

    Raises:
        ActionError: the action is impossible on this page; the message gives the agent the reason.
    """
    from playwright.async_api import Error

    tab = targets.tab
    try:
        if isinstance(action, Type):
            return await type_text(targets, action, at_once)
        if action.name in _AT_PAGE:
            return await _AT_PAGE[action.name](targets, action)
        await browse(targets.session, action, NAVIGATION_TIMEOUT)
        return "browser"
    except Error:
        if not await targets.session.has_closed(tab):
            raise
        return "keyboard" if isinstance(action, Press | Type | Fill) else "mouse"  # the action closed its own tab
