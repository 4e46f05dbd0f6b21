"""Actions on the browser itself: addresses, history, tabs, waiting."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from selfsurf.browser_env.actions import Action, Back, CloseTab, FocusTab, Forward, Navigate, NewTab, Reload, Wait
from selfsurf.browser_env.errors import ActionError
from selfsurf.browser_env.patience import lasted, limited
from selfsurf.browser_env.session.determinism import DeterministicTab
from selfsurf.browser_env.session.session import Session

if TYPE_CHECKING:
    from playwright.async_api import Page


NAVIGATION_TIMEOUT = 15.0
"""Seconds that a server may take to answer a navigation."""


async def browse(session: Session, action: Action, seconds: float) -> None:
    """Carry out an action on the browser, not on an element.

    Args:
        session: the session to act in.
        action: any other kind is ignored.
        seconds: how long a server may take to answer.

    Raises:
        ActionError: the action is impossible, or the page did not load.
    """
    from playwright.async_api import Error

    tab, began = session.active, time.monotonic()
    session.stayed = False
    try:
        match action:
            case Navigate():
                url = await _checked_url(session, action.url)
                async with limited(seconds):
                    await tab.page.goto(url, wait_until="commit", timeout=0)
            case Back():
                await _through_history(session, -1, seconds)
            case Forward():
                await _through_history(session, 1, seconds)
            case Reload():
                async with limited(seconds):
                    await tab.page.reload(wait_until="commit", timeout=0)
            case NewTab():
                url = await _checked_url(session, action.url) if action.url else ""
                await session.new_tab()
                if url:
                    async with limited(seconds):
                        await session.active.page.goto(url, wait_until="commit", timeout=0)
            case CloseTab():
                await session.close_tab()
            case FocusTab():
                if action.index >= len(session.tabs):
                    raise ActionError(f"There are {len(session.tabs)} tabs; the first has index 0.")
                await session.focus_tab(action.index)
            case Wait() if not isinstance(tab, DeterministicTab):  # a deterministic tab advances its time itself
                await tab.pass_by(action.ms, patience=action.ms / 1000)
    except (Error, TimeoutError) as error:
        late = f"Timeout: no answer within {lasted(seconds, time.monotonic() - began)}"
        text = str(error) if isinstance(error, Error) else late
        if "Download is starting" in text:
            return  # the download is reported as an event
        if "net::" in text or "invalid URL" in text or "Timeout" in text:
            with contextlib.suppress(Error):  # there may be nothing to stop
                await session.active.told(session.active.protocol.send("Page.stopLoading"))
            if not session.stayed:
                why = session.access.explain(text.splitlines()[0])
                raise ActionError(f"The page did not load: {why}", "navigation") from None
        else:
            raise
    if session.stayed:
        raise ActionError(
            "The page asked to confirm leaving it. The question was dismissed, so the page is still open.", "navigation"
        )


async def _through_history(session: Session, by: int, seconds: float) -> None:
    tab = session.active
    history = await tab.protocol.send("Page.getNavigationHistory")
    if not 0 <= history["currentIndex"] + by < len(history["entries"]):
        raise ActionError(f"There is no page to go {'back' if by < 0 else 'forward'} to.")
    page: Page = tab.page
    go = page.go_back if by < 0 else page.go_forward
    async with limited(seconds):
        await go(wait_until="commit", timeout=0)


async def _checked_url(session: Session, url: str) -> str:
    """Return an address in full, after checking that it may be opened."""
    access = session.access
    full = url if access.folders and url.startswith("file:///") else full_url(url)
    await access.check_url(full)
    return full


_NO_ADDRESS = ("javascript:", "vbscript:", "file:", "blob:", "filesystem:", "view-source:", "chrome:")


def full_url(url: str) -> str:
    """Return an address with its scheme, https if none is given.

    Raises:
        ActionError: the address is of a kind that can't be opened.
    """
    if url.startswith(("http://", "https://", "about:", "data:")):
        return url
    if (
        url.lower().startswith(_NO_ADDRESS)
        or "://" in url
        or (":" in url.split("/")[0] and not url.split("/")[0].rsplit(":", 1)[1].isdigit())
    ):
        raise ActionError(f"{url!r} can't be opened; use an address that begins with http:// or https://.")
    return f"https://{url}"
