"""One page: its protocol session, the in-page script in its frames, and what is still going on in it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from selfsurf.browser_env.errors import EnvError
from selfsurf.browser_env.session.page_script import PageScript, document_was_replaced, install_listener_probe

if TYPE_CHECKING:
    from playwright.async_api import CDPSession, Frame, Page

    from selfsurf.browser_env.record.input_listener import InputListener

_WATCHED = frozenset({"document", "script", "stylesheet", "xhr", "fetch"})
"""Request types that settling waits for; pictures, media and open-ended streams are not worth it."""

_LOST_PICTURE = 0.5
"""Seconds after a navigation in which a screenshot asked for before it may still come."""


@dataclass(frozen=True)
class ForeignFrame:
    """Where a frame of another origin is: number `index` among the frames that `parent` can't look into."""

    world: PageScript
    parent: PageScript
    index: int
    outer: ForeignFrame | None
    """The place of the parent, when that is such a frame itself."""

    async def offset(self, x: float | None = None, y: float | None = None) -> tuple[float, float, bool]:
        """Return where the frame's document begins in the top frame, and whether its point x, y is on top there.

        Raises:
            EnvError: the frame is gone.
        """
        here = await self.parent.call("holderOffset", index=self.index, x=x, y=y)
        if "error" in here:
            raise EnvError("The frame is gone.")
        if self.outer is None:
            return here["x"], here["y"], here["free"]
        inner = (None, None) if x is None or y is None else (here["x"] + x, here["y"] + y)
        left, top, free = await self.outer.offset(*inner)
        return here["x"] + left, here["y"] + top, here["free"] and free


class Tab:
    """A page with everything needed to look at it and act in it. Made by `Tab.open`."""

    def __init__(self, page: Page, protocol: CDPSession, frame: dict[str, Any]) -> None:
        self.page = page
        self.protocol = protocol
        self.crashed = False
        self.scripted = True
        """Do scripts of the page run? Without them no callback of ours does either."""
        self.clock = 0
        """Counts the loads and requests that have begun; what began later than a reading of it has a higher number."""
        self.changed = asyncio.Event()
        """Set whenever a load or a request ends."""
        self._listener: InputListener | None = None
        self.main = self._world(protocol, frame["id"])
        self.document: str = frame["loaderId"]
        """Names the main frame's document: another load has another name."""
        self._loads: dict[str, int] = {}
        self._requests: dict[str, tuple[int, str]] = {}
        self._unanswered: set[str] = set()
        self._worlds: dict[str, PageScript] = {}
        self._remote: dict[Frame, tuple[str, CDPSession]] = {}

    @classmethod
    async def open(cls, page: Page) -> Tab:
        """Attach to a page."""
        protocol = await page.context.new_cdp_session(page)
        tab = cls(page, protocol, await _enable(protocol))
        tab._watch(protocol)
        page.on("crash", lambda _: tab._crash())
        return tab

    def _watch(self, protocol: CDPSession) -> None:
        protocol.on("Page.frameRequestedNavigation", self._begin)
        protocol.on("Page.frameStartedLoading", self._begin)
        for event in ("frameStoppedLoading", "frameDetached", "navigatedWithinDocument", "downloadWillBegin"):
            protocol.on(f"Page.{event}", self._end)
        # Asked of the page itself, whose answers to the script come in the same order: Playwright tells of a request
        # that is routed only once it was held up, and settling may be over by then.
        protocol.on("Network.requestWillBeSent", self._sent)
        protocol.on("Network.responseReceived", lambda event: self._unanswered.discard(event["requestId"]))
        protocol.on("Network.loadingFinished", self._answered)
        protocol.on("Network.loadingFailed", self._answered)
        protocol.on("Page.frameNavigated", self._navigated)

    def _world(self, protocol: CDPSession, frame_id: str) -> PageScript:
        extra = self._listener.script if self._listener is not None else ""
        return PageScript(protocol, frame_id, self._next_change, lambda: self.crashed, extra)

    async def tell(self, listener: InputListener) -> None:
        """Have a person's input told to `listener`. To be called before the tab is looked at for the first time."""
        self._listener = listener
        self.main.extra = listener.script
        await listener.listen(self, self.protocol)

    def _begin(self, event: dict[str, Any]) -> None:
        if event.get("disposition", "currentTab") != "currentTab":
            return  # it goes on in another tab
        self.clock += 1
        self._loads[event["frameId"]] = self.clock

    def _end(self, event: dict[str, Any]) -> None:
        self._loads.pop(event["frameId"], None)
        self.changed.set()

    def stay(self) -> None:
        """Forget navigations under way: the page asked whether to leave it, and the answer was no."""
        self._loads.clear()
        self.changed.set()

    def _sent(self, event: dict[str, Any]) -> None:
        if event.get("type", "").lower() in _WATCHED:
            self.clock += 1
            self._requests[event["requestId"]] = (self.clock, event["loaderId"])
            if event["type"] == "Document":
                self._unanswered.add(event["requestId"])

    def _answered(self, event: dict[str, Any]) -> None:
        self._unanswered.discard(event["requestId"])
        self._requests.pop(event["requestId"], None)
        self.changed.set()

    def _navigated(self, event: dict[str, Any]) -> None:
        """Another document is there: nobody tells how the requests of the one before end."""
        frame = event["frame"]
        if frame["id"] == self.main.frame_id:
            self.document = frame["loaderId"]
            self._requests = {id: one for id, one in self._requests.items() if one[1] == frame["loaderId"]}
            self.changed.set()

    def _crash(self) -> None:
        self.crashed = True
        self.changed.set()

    def loading(self, since: int) -> bool:
        """Is a navigation or a load under way in any frame that began after the clock showed `since`?"""
        return any(began > since for began in self._loads.values())

    def fetching(self, since: int) -> bool:
        """Is a watched request under way that began after the clock showed `since`?"""
        return any(began > since for began, _ in self._requests.values())

    def unanswered(self) -> bool:
        """Is a navigation under way whose server has not begun to answer? Chromium holds our calls back meanwhile."""
        return not self._unanswered.isdisjoint(self._requests)

    async def call(self, method: str, **arguments: Any) -> Any:
        """Call a method of the in-page script in the main frame (`PageScript.call`)."""
        return await self.main.call(method, **arguments)

    async def caught_up(self, seconds: float) -> None:
        """Wait until all that the page has told is heard, and the browser knows which document it has shown.

        What a page tells comes in order, so it has come when an answer to a later question has. A page with an open
        dialog does not answer: it is waited for so long at most.
        """
        sessions = [self.protocol, *(protocol for _, protocol in self._remote.values())]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.gather(*(one.send("Page.getFrameTree") for one in sessions), return_exceptions=True)

    async def screenshot(self) -> bytes:
        """Return a PNG of the viewport."""
        asked: set[asyncio.Future[dict[str, Any]]] = set()
        try:
            for attempt in range(4):
                document = self.document
                asked.add(asyncio.ensure_future(self._capture()))
                try:
                    return base64.b64decode((await self._first(asked, document))["data"])
                except TimeoutError:
                    continue
                except Exception as error:
                    if attempt == 3 or not document_was_replaced(error):
                        raise
                    asked = {one for one in asked if not one.done()}
                    await self._next_change(0.1 * (attempt + 1))
            return base64.b64decode((await self._first(asked, ""))["data"])
        finally:
            for one in asked:
                one.cancel()

    async def _capture(self) -> dict[str, Any]:
        return await self.protocol.send("Page.captureScreenshot", {"format": "png", "optimizeForSpeed": True})

    async def _first(self, asked: set[asyncio.Future[dict[str, Any]]], document: str) -> dict[str, Any]:
        """Return the first answer.

        Raises:
            TimeoutError: none came soon after the page went to another document than `document`: Chromium forgets
                pictures of a page that is replaced just then.
        """
        while True:
            done, _ = await asyncio.wait(asked, timeout=_LOST_PICTURE, return_when=asyncio.FIRST_COMPLETED)
            if done:
                return done.pop().result()
            if document and self.document != document:
                raise TimeoutError

    async def _next_change(self, seconds: float) -> None:
        """While one document takes another's place, wait for a load to end, for so long at most."""
        self.changed.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.changed.wait(), seconds)

    async def enter(self, parent: PageScript, index: int, outer: ForeignFrame | None) -> ForeignFrame | None:
        """Return the place of a frame that `parent` can't look into; None when it is gone.

        Raises:
            EnvError: no session could be had for it.
        """
        frame_id = await parent.frame_of(index)
        if frame_id is None:
            return None
        if frame_id not in self._worlds:
            self._worlds[frame_id] = self._world(await self._session_of(frame_id, parent), frame_id)
        return ForeignFrame(self._worlds[frame_id], parent, index, outer)

    async def _session_of(self, frame_id: str, parent: PageScript) -> CDPSession:
        """Return the session of the target that a frame lives in: its parent's, or one of its own process."""
        try:
            await parent.protocol.send("Page.createIsolatedWorld", {"frameId": frame_id, "worldName": "selfsurf"})
            return parent.protocol
        except Exception as error:
            if not document_was_replaced(error):
                raise
        for frame in self.page.frames[1:]:
            if frame not in self._remote:
                with contextlib.suppress(Exception):  # it shares its parent's process, or has gone
                    protocol = await self.page.context.new_cdp_session(frame)
                    self._remote[frame] = ((await _enable(protocol))["id"], protocol)
                    self._watch(protocol)
                    if self._listener is not None:
                        await self._listener.listen(self, protocol)
            known, session = self._remote.get(frame, ("", parent.protocol))
            if known == frame_id:
                return session
        raise EnvError("A frame of another process could not be reached.")

    def drop(self, place: ForeignFrame) -> None:
        """Forget a frame that could not be looked at; it may have moved to another process."""
        self._worlds.pop(place.world.frame_id, None)
        place.parent.frames.pop(place.index, None)
        for frame in [frame for frame in self._remote if frame.is_detached()]:
            del self._remote[frame]

    async def rest_mouse(self) -> None:
        """Take the mouse off the page, so that nothing is hovered over because of an episode that is past."""
        await self.protocol.send("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": -1, "y": -1})


async def _enable(protocol: CDPSession) -> dict[str, Any]:
    """Switch a target's events on, and return what the protocol says of its frame."""
    await protocol.send("Page.enable")
    tree, *_ = await asyncio.gather(
        protocol.send("Page.getFrameTree"),
        protocol.send("Network.enable", {"maxTotalBufferSize": 1, "maxResourceBufferSize": 1}),
        install_listener_probe(protocol),
    )
    return dict(tree["frameTree"]["frame"])
