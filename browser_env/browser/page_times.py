"""Virtual times of a browser's pages, and the calls of Playwright's driver that wait for them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from playwright.async_api import Error

from selfsurf.browser_env.browser.page_time import INPUT, PageTime, RendererClock

if TYPE_CHECKING:
    from selfsurf.browser_env.browser.devtools import OwnSession

_ANSWER = b'{"id":'
_ATTACHED = b'{"method":"Target.attachedToTarget"'
_DETACHED = b'{"method":"Target.detachedFromTarget"'
_RUN = b'"Runtime.runIfWaitingForDebugger"'
_AWAITS = b'"awaitPromise":true'
_INPUT = b'"method":"Input.'
_DRAWS = re.compile(rb'"method":"(?:Page\.captureScreenshot|Page\.printToPDF|DOM\.scrollIntoViewIfNeeded)"')
"""Pattern of calls that wait for a frame."""
_MOVES = re.compile(rb'"type":"mouse(?:Moved|Wheel)"')
"""Pattern of mouse moves and wheel turns, which the page receives with the next frame."""


class PageTimes:
    """The virtual times of a browser's pages, and the calls of Playwright's driver that wait for them.

    Args:
        attach: returns a session of our own with a target.
        to_browser: passes a message of the driver on.
    """

    def __init__(self, attach: Callable[[str], Awaitable[OwnSession]], to_browser: Callable[[bytes], None]) -> None:
        self._attach, self._to_browser = attach, to_browser
        self._turn = asyncio.Lock()
        self._clocks: dict[float, RendererClock] = {}
        self._contexts: dict[str, list[PageTime]] = {}
        self._pages: dict[str, PageTime] = {}
        self._sessions: dict[bytes, PageTime] = {}
        """Page times by the driver's sessions with pages and their frames."""
        self._beginning: set[asyncio.Task[None]] = set()

    def of(self, target: str) -> PageTime | None:
        """Return the virtual time of a page; None for other targets."""
        return self._pages.get(target)

    async def try_picture(self, target: str) -> None:
        """Take a picture of a page that nobody else uses.

        Raises:
            Error: no picture is available.
        """
        page = PageTime(self._turn, self._clocks, 0.0)
        await page.begin(await self._attach(target))
        try:
            await page.picture()
        finally:
            page.close()

    def said(self, session: bytes, message: bytes) -> bool:
        """Record a driver's message to a page; return whether the message has to wait and is passed on later."""
        page = self._sessions.get(session)
        if page is None:
            return False
        if not page.begun.is_set() and _RUN in message[:200]:
            task = asyncio.ensure_future(self._say_later(page, message))
            self._beginning.add(task)
            task.add_done_callback(self._beginning.discard)
            return True
        call = session, _number(message)
        if _MOVES.search(message):
            page.asked(call, grace=0, begun=True)
        elif _AWAITS in message:
            page.asked(call, grace=0)
        elif _INPUT in message[:80]:
            page.asked(call, grace=INPUT)
        elif _DRAWS.search(message[:80]):
            page.asked(call, grace=0)
        return False

    async def _say_later(self, page: PageTime, message: bytes) -> None:
        await page.begun.wait()
        self._to_browser(message)

    def heard(self, session: bytes, message: bytes) -> None:
        """Record a browser's message to the driver."""
        if message.startswith(_ANSWER):
            if (page := self._sessions.get(session)) is not None:
                page.answered((session, _number(message)))
        elif message.startswith(_ATTACHED):
            self._attached(json.loads(message))
        elif message.startswith(_DETACHED):
            self._detached(json.loads(message)["params"]["sessionId"].encode())

    def _attached(self, event: dict[str, Any]) -> None:
        """Record a new page, or a page's frame in another renderer."""
        session, target = event["params"]["sessionId"].encode(), event["params"]["targetInfo"]
        if target["type"] == "page":
            if target["targetId"] not in self._pages:
                self._begin(target["targetId"], target.get("browserContextId", ""))
            self._sessions[session] = self._pages[target["targetId"]]
        elif (outer := self._sessions.get(event.get("sessionId", "").encode())) is not None:
            self._sessions[session] = outer

    def _begin(self, target: str, context: str) -> None:
        others = self._contexts.setdefault(context, [])
        page = self._pages[target] = PageTime(self._turn, self._clocks, max((one.now for one in others), default=0.0))
        others.append(page)
        task = asyncio.ensure_future(self._begin_with(page, target))
        self._beginning.add(task)
        task.add_done_callback(self._beginning.discard)

    async def _begin_with(self, page: PageTime, target: str) -> None:
        try:
            await page.begin(await self._attach(target))
        except Error:  # the page is gone already
            page.close()

    def _detached(self, session: bytes) -> None:
        page = self._sessions.pop(session, None)
        if page is None:
            return
        page.forget(session)
        if page not in self._sessions.values():
            page.close()
            self._pages = {target: one for target, one in self._pages.items() if one is not page}
            for context, pages in list(self._contexts.items()):
                if pages == [page]:
                    del self._contexts[context]
                elif page in pages:
                    pages.remove(page)

    def close(self) -> None:
        """Stop virtual time in all pages."""
        for page in self._pages.values():
            page.close()
        self._pages.clear()


def _number(message: bytes) -> int:
    """Return the number of a call or of its answer."""
    start = message.index(b'"id":') + 5
    end = start
    while message[end : end + 1].isdigit():
        end += 1
    return int(message[start:end])
