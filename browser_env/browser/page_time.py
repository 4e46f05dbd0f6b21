"""Virtual time of pages: a page's clock advances frame by frame, and only while a call waits for the page.

Chromium's headless shell lets us control both a renderer's clock (virtual time) and when a frame is drawn. Between
steps nothing moves. While a call waits for the page, Playwright's as well as our own, time advances by a frame, the
frame is drawn, and so on. Time stands still while the page's requests are pending, since they take real time. So the
effect of a one-second timer is seen at once.

Pages of a renderer share a clock. Frames of other sites and workers have renderers and threads of their own, in real
time. After a navigation into another renderer `Date` continues, but `performance.now` counts the real milliseconds
until the document arrived.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from playwright.async_api import Error

from selfsurf.browser_env.browser.browsers import without
from selfsurf.browser_env.browser.loads import NETWORK, OPENING, Loads

if TYPE_CHECKING:
    from selfsurf.browser_env.browser.devtools import OwnSession

T = TypeVar("T")

SWITCHES = (
    "--enable-begin-frame-control", "--run-all-compositor-stages-before-draw", "--disable-gpu-process-crash-limit",
    # After an input, timers would wait for the next frame, which is drawn only once their time has passed.
    without("DeferRendererTasksAfterInput"),
)  # fmt: skip
"""Switches for frames on demand and for ending the graphics process (`PageTime`)."""

FRAME = 1000 / 60
"""Milliseconds of page time from frame to frame."""

INSTANT = 0.001
"""Milliseconds of page time from frame to frame during a load, which must not take page time."""

COARSE = 50.0
"""Milliseconds of page time from frame to frame while calls wait only for time to pass."""

GRID, ROUNDING = 100.0, 0.5
"""Milliseconds between possible starts of an episode, and milliseconds added to a start because pages round down."""

AFTERMATH = 1000.0
"""Milliseconds that pass between two episodes in a page, for timers left by the first."""

EPOCH = 1767268800.0
"""Unix seconds at which a session begins for its pages: noon of 1 January 2026, UTC."""

INPUT = 0.5
"""Seconds after which input is assumed to wait for a frame, which only a lone mouse move does."""

EXPIRY = 1.0
"""Seconds to wait for the end of a span of virtual time, whose event a navigation may swallow."""

DRAWN = 1.5
"""Seconds that a frame may take while other pages wait for theirs. With `--run-all-compositor-stages-before-draw`
Chromium ends its graphics process if the frames of two pages overlap."""

ENDING = 0.5
"""Seconds that a frame may take after a dialog has opened or the graphics process was ended."""

PICTURE_PAUSES = (0, 0, 0, 0.05, 0.1, 0.2, 0.4, 0.8)
"""Seconds to pause before each attempt at a picture: the first frames of a page, or after a restart of the graphics
process, may lack the picture."""

HASTE = 120
"""Number of frames in a row for the same calls, after which frames are drawn at a screen's frame rate."""

TICK = 1e-3
"""Milliseconds in a tick of compositor time. A frame at the same tick as the previous one is never answered, and the
page then draws no other."""

GONE = "Target page, context or browser has been closed"
"""Playwright's message for a closed page."""


@dataclass
class RendererClock:
    """The clock of a renderer."""

    base: float
    """Compositor time, in milliseconds, at which the clock began."""
    elapsed: float = 0.0
    """Milliseconds since the clock began."""


class PageTime:
    """The virtual time of one page.

    Args:
        turn: lock that is held while a frame is drawn, since a browser can draw only one page at a time.
        clocks: clocks of the browser's renderers, by their base.
        start: milliseconds since the session began.
    """

    frame = FRAME

    def __init__(self, turn: asyncio.Lock, clocks: dict[float, RendererClock], start: float) -> None:
        self.now = start
        """Milliseconds since the session began, as the page sees it."""
        self.session: OwnSession
        self.begun = asyncio.Event()
        """Event that is set once the page's time stands still and the page may begin."""
        self._turn, self._clocks = turn, clocks
        self._clock = RendererClock(0.0)
        self._ahead = 0.0
        """Milliseconds by which the frames' time is ahead of the renderer's, since it must not go back."""
        self.frames = 0
        """Number of frames drawn."""
        self.drawing = False
        """Whether a frame is being drawn."""
        self._drawn_at = 0
        """Compositor time of the last frame, in ticks."""
        self.last_frame = 0.0
        """When the last frame was requested (`time.monotonic`)."""
        self._held = 0.0
        """Seconds for which loads have held up time since the last action on the page."""
        self._waiting: dict[object, bool] = {}
        """Calls that wait for time, and whether each has certainly begun before time advances."""
        self._grace: dict[object, asyncio.TimerHandle] = {}
        """Timers of calls that may be answered before time advances."""
        self._pictures: list[tuple[asyncio.Future[str], float]] = []
        """Requested pictures, and the milliseconds that have to pass before each."""
        self._passing: list[tuple[asyncio.Future[None], float, float]] = []
        """Pending waits for a page time: future, page time, and maximum milliseconds from frame to frame."""
        self._wake = asyncio.Event()
        self._loads = Loads(self._wake)
        self._in_a_row = 0
        self._moved = False
        self._expired: asyncio.Future[None] | None = None
        self._dialog: asyncio.Future[None] | None = None
        """Future that is done when the open dialog has been answered."""
        self._opened = asyncio.Event()
        """Event that is set while a dialog is open."""
        self._stuck = False
        """Whether the page may be in an endless script; no frame is drawn before the page answers."""
        self._running: asyncio.Task[None] | None = None
        self._over = False

    async def begin(self, session: OwnSession) -> None:
        """Stop the page's time; from now on it advances only while a call waits for the page.

        Args:
            session: session with the page.

        Raises:
            Error: the page is gone, or the browser has no virtual time.
        """
        self.session, loads = session, self._loads
        handlers: dict[str, Callable[[dict[str, Any]], object]] = {
            "Emulation.virtualTimeBudgetExpired": lambda _: self._expire(),
            "Page.frameRequestedNavigation": lambda event: loads.begin(f"to {event['frameId']}", "Document"),
            "Page.frameStartedNavigating": lambda event: loads.end(f"to {event['frameId']}"),
            "Page.frameClearedScheduledNavigation": lambda event: loads.end(f"to {event['frameId']}"),
            "Page.frameNavigated": lambda event: self._load(event["frame"]),
            "Page.domContentEventFired": loads.parsed,
            "Page.frameStoppedLoading": lambda event: loads.end(event["frameId"]),
            "Page.frameDetached": lambda event: loads.lose(event["frameId"]),
            "Network.requestWillBeSent": loads.sent,
            "Network.loadingFinished": lambda event: loads.end(event["requestId"]),
            "Network.loadingFailed": lambda event: loads.end(event["requestId"]),
            "Page.javascriptDialogOpening": lambda _: self._open_dialog(),
            "Page.javascriptDialogClosed": lambda _: self._close_dialog(),
        }
        for event, handle in handlers.items():
            session.on(event, handle)
        standing = asyncio.gather(session.send("Page.enable"), self._set("pause"))
        await asyncio.sleep(0)  # sends both; a tab that waits for its first document answers later
        self.begun.set()
        await standing
        if not self._over:
            self._running = asyncio.ensure_future(self._run())

    async def begun_with(self) -> OwnSession:
        """Return the session that controls the page's time, once the time stands still.

        Raises:
            Error: the page is gone.
        """
        await self.begun.wait()
        if self._over:
            raise Error(GONE)
        return self.session

    def asked(self, call: object, *, grace: float, begun: bool = False) -> None:
        """Record a pending call to the page that waits for the page's time.

        Args:
            call: key of the call.
            grace: seconds within which the call may be answered before time advances.
            begun: whether the call begins before time advances, since it was made in the controlling session.
        """
        if grace:  # the call is an input
            self._held = 0.0
            self._grace[call] = asyncio.get_running_loop().call_later(grace, self._count, call, False)
        else:
            self._count(call, begun)

    def answered(self, call: object) -> None:
        """Record that a pending call was answered."""
        self._waiting.pop(call, None)
        if (timer := self._grace.pop(call, None)) is not None:
            timer.cancel()

    def forget(self, session: bytes) -> None:
        """Drop the calls of a driver's session that has ended, since they won't be answered."""
        for call in [one for one in (*self._waiting, *self._grace) if isinstance(one, tuple) and one[0] == session]:
            self.answered(call)

    def picture(self, after: float = 0.0) -> asyncio.Future[str]:
        """Request a frame and return its picture, a PNG in base64.

        Args:
            after: milliseconds of page time that pass before the frame.

        Raises:
            Error: the page is gone, or gives no picture.
        """
        picture: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._pictures.append((picture, after))
        return self._awaited(picture)

    async def pass_by(self, milliseconds: float, *, stride: float = COARSE, patience: float = 0.0) -> None:
        """Let page time pass.

        Args:
            milliseconds: duration in page time.
            stride: maximum milliseconds from frame to frame.
            patience: seconds for which old requests hold up time once more.

        Raises:
            Error: the page is gone.
        """
        passed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._held = 0.0
        self._loads.wait_again(patience)
        self._passing.append((passed, self.now + milliseconds, stride))
        await self._awaited(passed)

    @contextlib.contextmanager
    def going_on(self) -> Iterator[None]:
        """Let time advance in this context, for calls that certainly wait for a frame."""
        call = object()
        self.asked(call, grace=0, begun=True)
        try:
            yield
        finally:
            self.answered(call)

    @contextlib.contextmanager
    def opening(self) -> Iterator[None]:
        """Draw frames without advancing time in this context, for a page that began to load unobserved."""
        self._loads.begin(OPENING, OPENING)
        try:
            yield
        finally:
            self._loads.end(OPENING)

    async def begin_anew(self) -> None:
        """Advance past the timers of the previous episode to a full tenth of a second.

        Raises:
            Error: the page is gone.
        """
        await self.pass_by(AFTERMATH + GRID - self.now % GRID + ROUNDING, stride=2 * AFTERMATH)

    def _awaited(self, future: asyncio.Future[T]) -> asyncio.Future[T]:
        if self._over:
            raise Error(GONE)
        self._wake.set()
        return future

    @property
    def asked_for(self) -> int | None:
        """Number of loads that the page has begun so far; None while a load, such as a picture, holds up its time."""
        return None if self._loads.hold_at(time.monotonic()) else self._loads.begun

    def close(self) -> None:
        """Stop advancing time and drawing, because the page is gone."""
        self._over = True
        if self._running is not None:
            self._running.cancel()
        for timer in self._grace.values():
            timer.cancel()
        awaited: list[asyncio.Future[Any]] = [future for future, _ in self._pictures]
        for future in (*awaited, *(future for future, _, _ in self._passing)):
            _fail(future, GONE)
        self.begun.set()

    # Events

    def _count(self, call: object, begun: bool) -> None:
        self._grace.pop(call, None)
        self._waiting[call] = begun
        self._in_a_row = 0
        self._wake.set()

    def _load(self, frame: dict[str, Any]) -> None:
        if "parentId" not in frame:
            self._held = 0.0
        self._loads.navigated(frame)

    def _open_dialog(self) -> None:
        self._dialog = asyncio.get_running_loop().create_future()
        self._opened.set()

    def _close_dialog(self) -> None:
        self._opened.clear()
        if self._dialog is not None and not self._dialog.done():
            self._dialog.set_result(None)

    def _expire(self) -> None:
        if self._expired is not None and not self._expired.done():
            self._expired.set_result(None)

    # Advancing time

    @property
    def _is_awaited(self) -> bool:
        return bool(self._waiting or self._passing)

    @property
    def _holds_frames(self) -> bool:
        """Whether the browser would delay the frame after the next.

        After two frames of a document that draws nothing yet, the browser draws the third only when the second's time
        has come by the real clock, which page time may be ahead of.
        """
        is_ahead = self._clock.base + self._clock.elapsed + self._ahead > time.monotonic() * 1000
        return is_ahead and (self._loads.is_blank or self._loads.is_leaving)

    async def _run(self) -> None:
        try:
            while True:
                if not (self._is_awaited or self._pictures):
                    await self._rest()
                    continue
                if not (self._pictures or self._passing or any(self._waiting.values())):
                    await self._probe()
                    if not self._is_awaited:
                        continue
                if self._in_a_row >= HASTE and not (self._pictures or self._passing):
                    await asyncio.sleep(FRAME / 1000)
                self._in_a_row += 1
                await self._go_on()
        except Error:
            pass  # the page is gone
        finally:
            self.close()

    async def _rest(self) -> None:
        """Wait until a call waits for the page. Pending loads get instants of time meanwhile, which they may need."""
        self._wake.clear()
        if self._moved:  # a new renderer would begin with the last policy set
            self._moved = False
            await self._set("pause")
        waited = self._loads.since_last()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), None if waited is None else _pace(waited))
        if self._loads and not (self._is_awaited or self._pictures):
            await self._move(INSTANT)
            await self._draw(picture=False)

    async def _probe(self) -> None:
        """Wait until the page has begun all earlier calls."""
        with contextlib.suppress(Error):
            if self.session.over:
                raise Error(GONE)
            await self.session.send("Runtime.evaluate", {"expression": "0", "silent": True})
            self._stuck = False

    async def _go_on(self) -> None:
        """Advance time by a frame, if a call waits for time, and draw the frame."""
        pictures = list(self._pictures)
        span = FRAME if self._is_awaited else max((after for _, after in pictures), default=0.0)
        if self._passing:
            stride = max(stride for _, _, stride in self._passing)
            if stride > COARSE or not (self._waiting or pictures):
                span = stride
            span = min(span, max(min(until for _, until, _ in self._passing) - self.now, 0.0))
        if span:
            await self._advance(span)
        data = await self._draw(picture=bool(pictures))
        for one in pictures:
            self._pictures.remove(one)
            if data is None:
                _fail(one[0], "Unable to capture screenshot")
            elif not one[0].done():
                one[0].set_result(data)
        for passed in [one for one in self._passing if one[1] <= self.now + 1e-6]:
            self._passing.remove(passed)
            if not passed[0].done():
                passed[0].set_result(None)

    async def _set(self, policy: str, budget: float | None = None) -> None:
        params: dict[str, Any] = {"policy": policy, "initialVirtualTime": EPOCH + self.now / 1000}
        if budget is not None:
            params["budget"] = budget
        answer = await self.session.send("Emulation.setVirtualTimePolicy", params)
        base = answer["virtualTimeTicksBase"]
        if base != self._clock.base:  # the page is in another renderer now
            self._clock = self._clocks.setdefault(base, RendererClock(base))
            self._ahead = max(0.0, self._drawn_at * TICK - (base + self._clock.elapsed))

    async def _advance(self, span: float) -> None:
        """Advance the page's time, once the loads that hold it up have arrived."""
        began = time.monotonic()
        waited = 0.0
        while self._held + waited < NETWORK and self._loads.hold_at(began + waited):
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), _pace(waited))
            if self._loads:
                await self._move(INSTANT)
                await self._draw(picture=False)
            waited = time.monotonic() - began
        self._held += waited
        await self._move(span)

    async def _move(self, span: float) -> None:
        expired = self._expired = asyncio.get_running_loop().create_future()
        await self._set("advance", span)
        while not (await asyncio.wait({expired}, timeout=EXPIRY))[0] and self._dialog is not None:
            if self._dialog.done():
                break
            await asyncio.wait({expired, self._dialog}, return_when=asyncio.FIRST_COMPLETED)
        self._stuck = self._stuck or not expired.done()
        self.now += span
        self._moved = True
        self._clock.elapsed += span

    async def _draw(self, *, picture: bool) -> str | None:
        """Draw a frame and return its picture; None if no picture is wanted or available."""
        params: dict[str, Any] = {"interval": FRAME}
        if picture:
            params["screenshot"] = {"format": "png", "optimizeForSpeed": True}
        for pause in PICTURE_PAUSES if picture else (0,):
            await asyncio.sleep(pause)
            if self._opened.is_set():
                return None  # a frame is not answered before the dialog
            if self._holds_frames and not picture:
                return None
            while self._loads.is_blank or self._holds_frames:
                await asyncio.sleep(FRAME / 1000)
                await self._move(INSTANT)
            if self._stuck:
                await self._probe()
            at = self._clock.base + self._clock.elapsed + self._ahead
            self._drawn_at = max(int(at / TICK), self._drawn_at + 1)
            params["frameTimeTicks"] = (self._drawn_at + 0.25) * TICK  # between ticks, so that rounding can't change it
            drawing = asyncio.ensure_future(self._draw_alone(params))
            drawing.add_done_callback(lambda done: None if done.cancelled() else done.exception())
            data = (await asyncio.shield(drawing)).get("screenshotData")
            if data is not None:
                return str(data)
        return None

    async def _draw_alone(self, params: dict[str, Any]) -> dict[str, Any]:
        """Draw a frame while no other page does; return its answer, empty if there is none. Must not be cancelled."""
        async with self._turn:
            if self.session.over:
                return {}
            self.last_frame = time.monotonic()
            self.frames += 1
            self.drawing = True
            self._loads.drawn()
            drawn = asyncio.ensure_future(self.session.send("HeadlessExperimental.beginFrame", params))
            opened = asyncio.ensure_future(self._opened.wait())
            await asyncio.wait({drawn, opened}, timeout=DRAWN, return_when=asyncio.FIRST_COMPLETED)
            opened.cancel()
            if not drawn.done() and self._opened.is_set():  # a handler may answer the dialog at once
                await asyncio.wait({drawn}, timeout=ENDING)
            self._stuck = not drawn.done()
            if self._stuck:
                with contextlib.suppress(Error):
                    await self.session.send("Browser.crashGpuProcess")
                await asyncio.wait({drawn}, timeout=ENDING)
        self.drawing = False
        if not drawn.done():
            drawn.cancel()
            return {}
        return {} if drawn.exception() is not None else drawn.result()


def _pace(waited: float) -> float:
    """Return the seconds until the next frame, given the seconds already waited."""
    return max(FRAME / 1000, waited / 4)


def _fail(future: asyncio.Future[Any], why: str) -> None:
    if not future.done():
        future.set_exception(Error(why))
