"""Scan of a long page, screen by screen, that returns everything seen (`env.unwrapped.paged_scan()`).

Scrolls the document or, if that doesn't scroll, the largest scroll container, and settles on every screen, so that
content that loads lazily, or exists only while in view, is included. Scrolls down, not sideways.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from selfsurf.browser_env.act.settle import Bounds, Settling
from selfsurf.browser_env.browser.page_script import read_script, with_dom
from selfsurf.browser_env.errors import EnvError
from selfsurf.browser_env.observation import Element
from selfsurf.browser_env.observe.capture import View, ViewOptions, capture
from selfsurf.browser_env.observe.merge import Merger
from selfsurf.browser_env.session.session import Session
from selfsurf.browser_env.session.tab import ForeignFrame
from selfsurf.browser_env.task import Viewport

if TYPE_CHECKING:
    from playwright.async_api import JSHandle

Stopped = Literal["end", "max_screens", "endless", "blocked"]

ENDLESS = 10
"""Number of times a page may grow at its end before it counts as endless."""

PATIENCE = 0.6
"""Seconds that a page may take to start growing at its end, if no request is pending."""

OVERLAP = 0.1
"""Share of a screen that is repeated on the next screen."""


@dataclass(frozen=True)
class Screen:
    """One screen of a scan."""

    offset: float
    """Scroll offset of the screen in CSS pixels."""
    top: int
    """CSS pixels at the top that are covered by content that doesn't scroll, such as a sticky header."""
    bottom: int
    """CSS pixels at the bottom that are covered by content that doesn't scroll."""
    screenshot: NDArray[np.uint8] | None
    """Screenshot of the whole viewport, (height, width, 3); None unless requested."""


@dataclass(frozen=True)
class Scan:
    """Everything seen while scrolling through a page."""

    elements: tuple[Element, ...]
    """Elements of the page, each once, in reading order. `bbox` is in page coordinates: those of the viewport when
    scrolled to the top. `in_viewport` refers to the position after scrolling back. Elements that no longer exist then
    (rows of a virtualised list) have the state `gone`: their ids can't be used until they are scrolled to."""
    dom: str
    """Outline of the whole page, in reading order."""
    page_text: str
    screens: tuple[Screen, ...]
    stopped: Stopped
    """Why the scan stopped: at the page's `end`, after `max_screens`, on an `endless` page that kept growing, or
    `blocked` by a page that would not scroll any further."""
    area: tuple[int, int, int, int]
    """Scrolled area in the viewport: x, y, width, height in CSS pixels."""

    @property
    def complete(self) -> bool:
        """Whether the page was seen to its end."""
        return self.stopped == "end"

    def stitched(self) -> NDArray[np.uint8]:
        """Return one image of the whole page. The elements' boxes are in its pixel coordinates.

        Content that doesn't scroll, such as a sticky header, is shown once, as on the first screen.

        Raises:
            ValueError: the scan was made without screenshots.
        """
        first = self.screens[0].screenshot
        if first is None:
            raise ValueError("The scan has no screenshots; make it with paged_scan(screenshots=True).")
        left, top, width, height = self.area
        extra = round(self.screens[-1].offset)
        canvas = np.full((first.shape[0] + extra, *first.shape[1:]), 255, dtype=np.uint8)
        canvas[: first.shape[0]] = first
        done = 0  # rows of the scrolled content drawn so far
        for screen in self.screens:
            assert screen.screenshot is not None
            offset = round(screen.offset)
            end = offset + height - (0 if screen is self.screens[-1] else screen.bottom)
            start = max(done, offset)
            if end > start:
                rows = screen.screenshot[top + start - offset : top + end - offset, left : left + width]
                canvas[top + start : top + end, left : left + width] = rows
                done = end
        return canvas


Foreign = dict[int, ForeignFrame]


async def paged_scan(
    session: Session, options: ViewOptions, viewport: Viewport, bounds: Bounds, *, max_screens: int, seconds: float
) -> tuple[Scan, Foreign]:
    """Scroll through the active tab's page, and back.

    Args:
        session: session whose active tab is scanned.
        options: what each screen's observation contains; budget and reach are ignored.
        viewport: viewport of the session.
        bounds: time limits of settling on each screen.
        max_screens: maximum number of screens to visit.
        seconds: how long a screen may take before the page counts as hung.

    Returns:
        The scan, and the frames of another origin by the ids of their elements, as in `View.foreign`.

    Raises:
        EnvError: the page went away, crashed or hung.
        ValueError: `max_screens` is less than 1.
    """
    if max_screens < 1:
        raise ValueError(f"max_screens must be at least 1, not {max_screens}.")
    options = replace(options, budget=None, reach=None)
    # A second quiet frame is needed, since intersection observers are notified after the first.
    walk = _Walk(session, options, viewport, replace(bounds, frames=max(2, bounds.frames)))
    try:
        async with asyncio.timeout(seconds):
            await walk.begin()
        try:
            while walk.stopped is None:
                async with asyncio.timeout(seconds):
                    await walk.next_screen(max_screens)
        finally:
            await walk.go_back()
        async with asyncio.timeout(seconds):
            return await walk.finish(walk.stopped), walk.foreign
    except EnvError:
        raise
    except Exception as error:
        why = "it did not answer in time" if isinstance(error, TimeoutError) else str(error).strip().split("\n")[0]
        raise EnvError(f"The page could not be scanned to the end: {why}.") from error


class _Walk:
    """A scan in progress."""

    def __init__(self, session: Session, options: ViewOptions, viewport: Viewport, bounds: Bounds) -> None:
        self.stopped: Stopped | None = None
        self.foreign: Foreign = {}
        self._session, self._options, self._viewport, self._bounds = session, options, viewport, bounds
        self._tab = session.active
        self._merger = Merger()
        self._screens: list[Screen] = []
        self._area = (0, 0, *viewport)
        self._scroller: JSHandle
        self._start = 0.0
        self._next = 0.0
        self._seen = 0.0
        """CSS pixels from the top of the last screen down to where its content was visible."""
        self._end = 0.0
        """Height of the page in CSS pixels, updated whenever the end has been reached."""
        self._grown = 0

    async def begin(self) -> None:
        """Find the scroll container and its position."""
        self._scroller = await self._tab.page.evaluate_handle(with_dom(read_script("paged_scan")))
        at = await self._measure()
        self._start, self._end = at["offset"], at["height"]
        left, top, width, height = (round(side) for side in at["area"])
        self._area = (left, top, width, height)

    async def next_screen(self, most: int) -> None:
        """Scroll to the next screen, observe it, and determine whether it was the last."""
        since = self._tab.clock
        at = await self._scroll_to(self._next)
        if self._screens and at["offset"] + at["top"] > (covered := self._screens[-1].offset + self._seen):
            at = await self._scroll_to(covered - at["top"])  # a new header would hide a part
        if self._screens and at["offset"] <= self._screens[-1].offset:
            self.stopped = "blocked"
            return
        view = await self._look(self._options, since)
        at = await self._measure()
        self._merger.add(view.elements, view.dom, view.page_text, at["offset"])
        self._screens.append(Screen(at["offset"], at["top"], at["bottom"], view.screenshot))
        seen_to = at["offset"] + at["view"] + 1
        if seen_to >= at["height"]:
            scrolls = at["height"] > at["view"] + 1
            if not scrolls or not await self._call("grows", at["height"], PATIENCE * 1000):
                self.stopped = "end"
                return
            at = await self._measure()
        if seen_to >= self._end:
            self._grown += at["height"] > self._end
            self._end = at["height"]
        if self._grown >= ENDLESS:
            self.stopped = "endless"
        elif len(self._screens) >= most:
            self.stopped = "max_screens"
        self._seen = at["view"] - at["bottom"]
        self._next = at["offset"] + max(1, int((self._seen - at["top"]) * (1 - OVERLAP)))

    async def go_back(self) -> None:
        """Scroll back to the initial position."""
        with contextlib.suppress(Exception):  # the page hangs or is gone
            await asyncio.wait_for(self._call("to", self._start), 3)

    async def finish(self, stopped: Stopped) -> Scan:
        """Observe once more, after scrolling back, and return the complete scan."""
        view = await self._look(replace(self._options, screenshot=False), self._tab.clock)
        elements, dom = self._merger.result(view.elements, view.dom, self._start)
        await self._scroller.dispose()
        return Scan(elements, dom, self._merger.text(), tuple(self._screens), stopped, self._area)

    async def _look(self, options: ViewOptions, since: int) -> View:
        settling = Settling(self._session.active, self._bounds, since)
        view = await capture(self._session, options, self._viewport, settling)
        self.foreign.update(view.foreign)
        return view

    async def _scroll_to(self, offset: float) -> dict[str, Any]:
        await self._call("to", offset)
        return await self._measure()

    async def _measure(self) -> dict[str, Any]:
        return dict(await self._call("measure"))

    async def _call(self, method: str, *arguments: float) -> Any:
        return await self._scroller.evaluate(f"(scan, a) => scan.{method}(...a)", list(arguments))
