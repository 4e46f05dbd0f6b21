"""One page: its protocol session, the in-page script in its frames, and its pending loads and requests."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import time
from collections.abc import Awaitable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from selfsurf.browser_env.browser.page_script import (
    PROBE,
    WORLD,
    PageScript,
    document_was_replaced,
    install_listeners,
)
from selfsurf.browser_env.browser.runtime import runtime
from selfsurf.browser_env.errors import EnvError

if TYPE_CHECKING:
    from playwright.async_api import CDPSession, Frame, Page

    from selfsurf.browser_env.browser.devtools import ProtocolSession
    from selfsurf.browser_env.browser.page_time import PageTime
    from selfsurf.browser_env.session.input_listener import InputListener

T = TypeVar("T")

_WATCHED = frozenset({"document", "script", "stylesheet", "xhr", "fetch"})
"""Request types that settling waits for; images, media and streams are ignored."""

_LOST_PICTURE = 0.5
"""Seconds after a navigation in which a screenshot requested before it may still arrive."""

NOT_OURS = object()
"""Placeholder for the virtual time of a page in a browser started elsewhere, whose frame rate is limited."""

TITLE = 1.0
"""Seconds that a background tab may take to return its title."""


@dataclass(frozen=True)
class ForeignFrame:
    """A frame of another origin: number `index` among the frames that `parent` can't access."""

    world: PageScript
    parent: PageScript
    index: int
    outer: ForeignFrame | None
    """The parent frame if it is of another origin itself; otherwise None."""

    async def to_top(self, x: float, y: float, press: int = 0) -> tuple[float, float, bool]:
        """Return a point of the frame's viewport in the top frame, and whether the point is uncovered there.

        Args:
            x: x of the point.
            y: y of the point.
            press: number of the press that follows at the point; 0 for none.

        Raises:
            EnvError: the frame is gone.
        """
        here = await self.parent.call("pointInHolder", index=self.index, x=x, y=y, press=press)
        if "error" in here:
            raise EnvError("The frame is gone.")
        if self.outer is None:
            return here["x"], here["y"], here["free"]
        left, top, free = await self.outer.to_top(here["x"], here["y"], press)
        return left, top, here["free"] and free


class Tab:
    """A page with everything needed to observe it and act in it. Created by `Tab.open`."""

    def __init__(
        self, page: Page, protocol: ProtocolSession, driver: CDPSession | None, frame: dict[str, Any], probe: str
    ) -> None:
        self.page = page
        self.probe = probe
        self.protocol = protocol
        self._driver = driver
        self.time: PageTime | None = getattr(protocol, "time", None)
        """Virtual time of the page; None if the page runs in real time."""
        self.opener: Tab | None = None
        """Tab whose page opened this tab; None if no page did."""
        self.crashed = False
        self.scripted = True
        """Whether the page's scripts run. If not, our in-page callbacks don't run either."""
        self.clock = 0
        """Number of loads and requests begun so far; later ones have a higher number."""
        self.begun_at = 0.0
        """When (`time.monotonic`) the last load or request began."""
        self.parsed_at: float | None = None
        """When (`time.monotonic`) the main frame's document was parsed, without its images; None while it loads."""
        self.changed = asyncio.Event()
        """Event that is set whenever a load or a request ends."""
        self.dragged: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        """Drag data from the browser when an intercepted drag begins; replaced at each press."""
        self._titling: asyncio.Future[str] | None = None
        self._passing: asyncio.Future[None] | None = None
        self._listener: InputListener | None = None
        self.main = self._world(protocol, frame["id"])
        self.document: str = frame["loaderId"]
        """Id of the main frame's document; each load has a new id."""
        self.documents = 0
        """Number of documents that the main frame has had since the tab was opened."""
        self._loads: dict[str, int] = {}
        self._requests: dict[str, tuple[int, str, str]] = {}
        """Pending requests: clock at their start, document, and frame."""
        self._unanswered: set[str] = set()
        self._worlds: dict[str, PageScript] = {}
        self._silent: dict[str, asyncio.Future[Any]] = {}
        """Frames that leave a call unanswered, and the call."""
        self._remote: dict[Frame, tuple[str, ProtocolSession]] = {}

    @classmethod
    async def open(cls, page: Page, probe: str = PROBE) -> Tab:
        """Attach to a page. `probe` is the event name for `install_listeners`."""
        protocol, driver = await protocol_of(page)
        tab = cls(page, protocol, driver, await _enable(protocol, probe), probe)
        tab._watch(protocol)
        page.on("crash", lambda _: tab._crash())
        return tab

    def _watch(self, protocol: ProtocolSession) -> None:
        protocol.on("Inspector.targetCrashed", lambda _: self._crash())
        protocol.on("Page.frameRequestedNavigation", self._begin)
        protocol.on("Page.frameStartedLoading", self._begin)
        if protocol is self.protocol:
            protocol.on("Page.domContentEventFired", lambda _: self._parsed())
            protocol.on("Input.dragIntercepted", self._hand_over)
        for event in ("frameStoppedLoading", "navigatedWithinDocument", "downloadWillBegin"):
            protocol.on(f"Page.{event}", self._end)
        protocol.on("Page.frameDetached", self._lose)
        # Requests are taken from the page's own session, where events and answers arrive in order: Playwright reports a
        # routed request only after its interception, and settling may be over by then.
        protocol.on("Network.requestWillBeSent", self._sent)
        protocol.on("Network.responseReceived", lambda event: self._unanswered.discard(event["requestId"]))
        protocol.on("Network.loadingFinished", self._answered)
        protocol.on("Network.loadingFailed", self._answered)
        protocol.on("Page.frameNavigated", self._navigated)

    def _world(self, protocol: ProtocolSession, frame_id: str) -> PageScript:
        extra = self._listener.script if self._listener is not None else ""
        return PageScript(protocol, frame_id, self._next_change, lambda: self.crashed, extra, self.probe)

    async def tell(self, listener: InputListener) -> None:
        """Report a person's input to `listener`. Call it before the tab is first observed."""
        self._listener = listener
        self.main.extra = listener.script
        await listener.listen(self, self.protocol)

    def _begin(self, event: dict[str, Any]) -> None:
        if event.get("disposition", "currentTab") != "currentTab":
            return  # the navigation continues in another tab
        self._count()
        self._loads[event["frameId"]] = self.clock
        if event["frameId"] == self.main.frame_id:
            self.parsed_at = None

    def _count(self) -> None:
        self.clock += 1
        self.begun_at = time.monotonic()

    def _parsed(self) -> None:
        self.parsed_at = time.monotonic()
        self.changed.set()

    def _end(self, event: dict[str, Any]) -> None:
        self._loads.pop(event["frameId"], None)
        self.changed.set()

    def _hand_over(self, event: dict[str, Any]) -> None:
        if not self.dragged.done():
            self.dragged.set_result(event["data"])

    def _lose(self, event: dict[str, Any]) -> None:
        """Drop the requests of a frame that is gone or continues in another process, where their ends are reported."""
        self._requests = {id: one for id, one in self._requests.items() if one[2] != event["frameId"]}
        self._end(event)

    def stay(self) -> None:
        """Forget pending navigations, because the page's `beforeunload` dialog was dismissed."""
        self._loads.clear()
        self.changed.set()

    def _sent(self, event: dict[str, Any]) -> None:
        own = event["loaderId"] != ""  # not a worker's script, whose end is reported to the worker only
        if own and event.get("type", "").lower() in _WATCHED and not _in_background(event):
            self._count()
            self._requests[event["requestId"]] = (self.clock, event["loaderId"], event.get("frameId", ""))
            if event["type"] == "Document":
                self._unanswered.add(event["requestId"])

    def _answered(self, event: dict[str, Any]) -> None:
        self._unanswered.discard(event["requestId"])
        self._requests.pop(event["requestId"], None)
        self.changed.set()

    def _navigated(self, event: dict[str, Any]) -> None:
        """Record a new document. Requests of the previous document are no longer reported."""
        frame = event["frame"]
        if frame["id"] == self.main.frame_id:
            self.document = frame["loaderId"]
            self.documents += 1
            self._requests = {id: one for id, one in self._requests.items() if one[1] == frame["loaderId"]}
            self.changed.set()

    def _crash(self) -> None:
        self.crashed = True
        self.changed.set()

    def loading(self, since: int) -> bool:
        """Whether a navigation or load is pending in any frame that began after the clock was at `since`."""
        return any(began > since for began in self._loads.values())

    def fetching(self, since: int) -> bool:
        """Whether a watched request is pending that began after the clock was at `since`."""
        return any(began > since for began, *_ in self._requests.values())

    def has_shown_for(self, seconds: float) -> bool:
        """Whether the document was parsed more than `seconds` ago."""
        return self.parsed_at is not None and time.monotonic() - self.parsed_at > seconds

    def unanswered(self) -> bool:
        """Whether a navigation of any frame is pending whose server hasn't begun to answer."""
        return not self._unanswered.isdisjoint(self._requests)

    def holds_calls(self) -> bool:
        """Whether a navigation of the main frame waits for a response; meanwhile Chromium delays our calls."""
        return any(self._requests[id][2] == self.main.frame_id for id in self._unanswered & self._requests.keys())

    async def call(self, method: str, **arguments: Any) -> Any:
        """Call a method of the in-page script in the main frame (`PageScript.call`)."""
        return await self.main.call(method, **arguments)

    async def caught_up(self, seconds: float) -> None:
        """Wait until all events sent so far have arrived, and the browser knows which document the page shows.

        Events arrive in order, so they are here once a later call is answered. A page with an open dialog doesn't
        answer, hence the time limit.
        """
        sessions = [self.protocol, *(protocol for _, protocol in self._remote.values())]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.gather(*(one.send("Page.getFrameTree") for one in sessions), return_exceptions=True)

    async def title(self) -> str:
        """Return the page's title, or "" while the page loads or hangs. A hung page delays only the first call."""
        if self._titling is None or self._titling.done():
            self._titling = asyncio.ensure_future(self.page.title())
            self._titling.add_done_callback(lambda done: None if done.cancelled() else done.exception())
            await asyncio.wait({self._titling}, timeout=TITLE)
        try:
            return self._titling.result()
        except Exception:
            return ""

    async def told(self, asking: Awaitable[T]) -> T:
        """Await a page's answer, then wait until Playwright, whose driver lags, has reported all earlier events."""
        devtools = runtime().devtools(self.page.context.browser)
        if devtools is None or self._driver is None:
            return await asking
        return await devtools.told(self._driver, asking)

    @property
    def seconds(self) -> float:
        """Seconds by the page's virtual clock, or by the real clock if the page has none."""
        return time.monotonic() if self.time is None else self.time.now / 1000

    async def pass_by(self, milliseconds: float, *, patience: float = 0.0) -> None:
        """Let time pass, virtual time if the page has it. `patience` is as in `PageTime.pass_by`."""
        if self.time is None:
            passing: Coroutine[Any, Any, None] = asyncio.sleep(milliseconds / 1000)
        else:
            passing = self.time.pass_by(milliseconds, patience=patience)
        self._passing = asyncio.ensure_future(passing)
        try:
            await asyncio.wait({self._passing})
            if not self._passing.cancelled():  # `hurry` cancels it
                self._passing.result()
        finally:
            self._passing.cancel()

    async def hurry(self) -> None:
        """End an abandoned step sooner: cancel its `pass_by`, and stop a navigation without a response."""
        if self._passing is not None:
            self._passing.cancel()
        if self.holds_calls():
            with contextlib.suppress(Exception):  # the page is gone, and the step will notice
                async with asyncio.timeout(TITLE):
                    await self.protocol.send("Page.stopLoading")

    def going_on(self) -> contextlib.AbstractContextManager[None]:
        """Return a context in which virtual time passes and frames are drawn; without effect on a page in real time."""
        return contextlib.nullcontext() if self.time is None else self.time.going_on()

    def opening(self) -> contextlib.AbstractContextManager[None]:
        """Return a context in which a new page loads while virtual time stands still; without effect in real time."""
        return contextlib.nullcontext() if self.time is None else self.time.opening()

    async def screenshot(self, *, settling: bool = False) -> bytes:
        """Return a PNG of the viewport.

        Args:
            settling: whether the page may go on; in virtual time, the time of a frame passes.
        """
        asked: set[asyncio.Future[dict[str, Any]]] = set()
        try:
            for attempt in range(4):
                document = self.document
                asked.add(asyncio.ensure_future(self._capture(settling)))
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

    async def _capture(self, settling: bool) -> dict[str, Any]:
        if self.time is not None:
            return {"data": await self.time.picture(self.time.frame if settling else 0.0)}
        return await self.protocol.send("Page.captureScreenshot", {"format": "png", "optimizeForSpeed": True})

    async def _first(self, asked: set[asyncio.Future[dict[str, Any]]], document: str) -> dict[str, Any]:
        """Return the first answer to the screenshot requests.

        Raises:
            TimeoutError: no answer came soon after the page left `document`: Chromium drops screenshots of a page that
                is being replaced.
        """
        while True:
            done, _ = await asyncio.wait(asked, timeout=_LOST_PICTURE, return_when=asyncio.FIRST_COMPLETED)
            if done:
                return done.pop().result()
            if document and self.document != document:
                raise TimeoutError

    async def _next_change(self, seconds: float) -> None:
        """While a document is being replaced, wait for a load to end, for at most `seconds`."""
        self.changed.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.changed.wait(), seconds)

    async def enter(self, parent: PageScript, index: int, outer: ForeignFrame | None) -> ForeignFrame | None:
        """Return a frame whose document `parent` can't access; None if the frame is gone.

        Raises:
            EnvError: no session could be opened for the frame.
            TimeoutError: the frame has left an earlier call unanswered, and still does.
        """
        frame_id = await parent.frame_of(index)
        if frame_id is None:
            return None
        if frame_id in self._silent:
            raise TimeoutError
        if frame_id not in self._worlds:
            opening = asyncio.ensure_future(self._session_of(frame_id, parent))
            try:
                self._worlds[frame_id] = self._world(await asyncio.shield(opening), frame_id)
            except asyncio.CancelledError:
                self._await_answer(frame_id, opening)
                raise
        return ForeignFrame(self._worlds[frame_id], parent, index, outer)

    def leave_silent(self, place: ForeignFrame) -> None:
        """Skip a hung frame until it answers, and then use a new script, since the old script has pending calls."""
        world = place.world
        self.drop(place)
        asking = world.protocol.send("Runtime.evaluate", {"expression": "0"})
        self._await_answer(world.frame_id, asyncio.ensure_future(asking))

    def _await_answer(self, frame_id: str, answering: asyncio.Future[Any]) -> None:
        """Count a frame as silent until `answering` is done."""
        self._silent[frame_id] = answering

        def forget(done: asyncio.Future[Any]) -> None:
            self._silent.pop(frame_id, None)
            if not done.cancelled():
                done.exception()

        answering.add_done_callback(forget)

    async def _session_of(self, frame_id: str, parent: PageScript) -> ProtocolSession:
        """Return the session of a frame's target: the parent's, or that of the frame's own process."""
        try:
            await parent.protocol.send("Page.createIsolatedWorld", {"frameId": frame_id, "worldName": WORLD})
            return parent.protocol
        except Exception as error:
            if not document_was_replaced(error):
                raise
        for frame in self.page.frames[1:]:
            if frame not in self._remote:
                with contextlib.suppress(Exception):  # the frame shares its parent's process, or is gone
                    protocol, _ = await protocol_of(self.page, frame)
                    self._remote[frame] = ((await _enable(protocol, self.probe))["id"], protocol)
                    self._watch(protocol)
                    if self._listener is not None:
                        await self._listener.listen(self, protocol)
            known, session = self._remote.get(frame, ("", parent.protocol))
            if known == frame_id:
                return session
        raise EnvError("A frame of another process could not be reached.")

    def frames_within(self) -> list[str]:
        """Return the addresses of frames that aren't known to have a process of their own."""
        return [frame.url for frame in self.page.frames[1:] if frame not in self._remote]

    def drop(self, place: ForeignFrame) -> None:
        """Forget a frame that could not be observed; it may have moved to another process."""
        self._worlds.pop(place.world.frame_id, None)
        place.parent.frames.pop(place.index, None)
        gone = place.world.frame_id
        self._remote = {
            frame: known for frame, known in self._remote.items() if not frame.is_detached() and known[0] != gone
        }

    async def rest_mouse(self, meanwhile: Coroutine[Any, Any, T]) -> T:
        """Move the mouse off the page, so that nothing stays hovered from an earlier episode, and await other work.

        Args:
            meanwhile: the other work. In virtual time it begins after the move, so that the order is fixed.

        Returns:
            The result of the work.
        """
        if self.time is not None and not self.time.now:  # a new page has no mouse; a move would wait for a frame
            return await meanwhile
        moving = self.protocol.send("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": -1, "y": -1})
        if self.time is None:
            return (await asyncio.gather(meanwhile, moving))[0]
        await asyncio.gather(moving, self.time.begin_anew())
        return await meanwhile


def _in_background(event: dict[str, Any]) -> bool:
    """Whether a request was sent by a callback that the page scheduled before the step's input (`page/timers.js`)."""
    frames = event.get("initiator", {}).get("stack", {}).get("callFrames", [])
    return any((frame["functionName"], frame["url"]) == ("background", "") for frame in frames[-2:])


async def protocol_of(page: Page, frame: Frame | None = None) -> tuple[ProtocolSession, CDPSession | None]:
    """Return a session with a page or a frame of another process. If it is our own, also return Playwright's."""
    driver = await page.context.new_cdp_session(frame or page)
    devtools = runtime().devtools(page.context.browser)
    if devtools is None:
        return driver, None
    target = (await driver.send("Target.getTargetInfo"))["targetInfo"]["targetId"]
    return await devtools.attach(target), driver


async def _enable(protocol: ProtocolSession, probe: str) -> dict[str, Any]:
    """Enable a target's events and return the protocol's description of its frame."""
    await protocol.send("Page.enable")
    await protocol.send("Inspector.enable")
    tree, *_ = await asyncio.gather(
        protocol.send("Page.getFrameTree"),
        protocol.send("Network.enable", {"maxTotalBufferSize": 1, "maxResourceBufferSize": 1}),
        install_listeners(protocol, probe, transitions=getattr(protocol, "time", NOT_OURS) is not None),
    )
    return dict(tree["frameTree"]["frame"])
