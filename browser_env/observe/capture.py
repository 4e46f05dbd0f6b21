"""Observation of the active tab: one in-page pass and, optionally, one screenshot, at the same time."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from selfsurf.browser_env.act.settle import FRAME_BOUND, Settling
from selfsurf.browser_env.browser.page_script import PageScript, document_was_replaced, with_told
from selfsurf.browser_env.limits import Limits
from selfsurf.browser_env.observation import Element
from selfsurf.browser_env.observation import Tab as TabView
from selfsurf.browser_env.observe.screenshot import decode_png
from selfsurf.browser_env.outline import Line, element_line, quote, render
from selfsurf.browser_env.patience import limited
from selfsurf.browser_env.session.session import Session
from selfsurf.browser_env.session.tab import ForeignFrame, Tab
from selfsurf.browser_env.task import Viewport
from selfsurf.browser_env.text import clip

if TYPE_CHECKING:
    from selfsurf.browser_env.browser.page_time import PageTime

MOMENT = 0.5
"""Minimum seconds that a frame gets to answer, even if loading has used up the time."""


@dataclass(frozen=True)
class TextSearch:
    """A text to find, which allows the rest of the page to be left out (`page/branches.js`)."""

    text: str
    near: int
    """Visible blocks observed on each side of a candidate, an element that may contain the text."""
    most: int
    """Maximum number of visible candidates to observe."""
    fields: bool
    """Whether all form fields are observed, besides the candidates."""


@dataclass(frozen=True)
class ViewOptions:
    """Options for the content of an observation."""

    screenshot: bool = True
    stamp_ids: bool = False
    """Whether to write element ids into the page as `data-agent-id`."""
    budget: int | None = None
    """Maximum size of the outline; None for no limit."""
    reach: float | None = 1.0
    """Viewport heights observed above and below the viewport; None for the whole page."""
    count: Callable[[str], int] = len
    """Function that measures the outline's size, in characters (`len`) or tokens."""
    limits: Limits = field(default_factory=Limits)
    seek: TextSearch | None = None
    """Text to which the observation is limited; None to observe everything."""


@dataclass
class View:
    """A tab as observed: address, title, elements, outline, text and screenshot."""

    url: str
    title: str
    tabs: tuple[TabView, ...]
    elements: tuple[Element, ...]
    dom: str
    page_text: str
    screenshot: NDArray[np.uint8] | None
    foreign: dict[int, ForeignFrame] = field(default_factory=dict)
    """Frames of other origins by the ids of their elements."""
    waited: float = 0.0
    """Seconds spent waiting for the page to settle."""
    faults: tuple[str, ...] = ()
    """Elements that the in-page script failed to observe, with reasons."""
    closing: bool = False
    """Whether the page has asked to be closed and is about to close."""


async def capture(
    session: Session,
    options: ViewOptions,
    viewport: Viewport,
    settling: Settling | None = None,
    meanwhile: Callable[[], Awaitable[None]] | None = None,
) -> View:
    """Observe the session's active tab.

    Args:
        session: the session.
        options: what the observation contains.
        viewport: size of the screenshot.
        settling: the tab's settling, to wait for; None to observe at once.
        meanwhile: additional reads from the quiet page. Must not change the page, and runs again if the page was not
            quiet after all.

    The screenshot is requested together with the pass, and again if the page changed before the pass, so that both show
    the same page.
    """
    start = time.monotonic()
    what = _asked(session, options, None, None)
    taken = _Capture(session, options, what, viewport, meanwhile or _nothing)
    view = await (taken.now() if settling is None else taken.settled(settling))
    view.screenshot = taken.pixels
    view.waited = taken.settled_at - start if taken.settled_at else 0.0
    return view


async def view_of(session: Session, tab: Tab, options: ViewOptions, raw: dict[str, Any], began: float) -> View:
    """Return the view of a pass over a tab's main frame, adding the frames that the pass could not access.

    Args:
        session: session of the tab.
        tab: the tab.
        options: what the view contains.
        raw: result of the pass.
        began: when (`time.monotonic`) the observation began: from then on frames have `FRAME_BOUND` to answer.
    """
    until = (min(began, tab.begun_at) if tab.loading(-1) else began) + FRAME_BOUND  # including the time of loading
    shown, limits = list(session.tabs), options.limits
    seen, titles = await asyncio.gather(
        _unpacked(session, tab, options, raw, tab.main, None, raw["scroll"][4:6], until),
        asyncio.gather(*(_title(other, raw, limits) for other in shown)),
    )
    lines, elements, texts, foreign, faults = seen
    tabs = tuple(
        TabView(url=clip(raw["url"] if other is tab else other.page.url, limits.url), title=title, active=other is tab)
        for other, title in zip(shown, titles, strict=True)
    )
    return View(
        url=raw["url"],
        title=raw["title"],
        tabs=tabs,
        elements=tuple(sorted(elements, key=lambda element: not element["in_viewport"])),
        dom=render(lines, options.budget, options.count),
        page_text="\n".join(texts),
        screenshot=None,
        foreign=foreign,
        faults=tuple(faults),
        closing=raw["closing"],
    )


@dataclass
class _Capture:
    """An observation in progress: the pass, the screenshot and additional reads, as concurrent as possible."""

    session: Session
    options: ViewOptions
    what: dict[str, Any]
    viewport: Viewport
    meanwhile: Callable[[], Awaitable[None]]
    raw: dict[str, Any] = field(default_factory=dict)
    pixels: NDArray[np.uint8] | None = None
    settled_at: float = 0.0

    def __post_init__(self) -> None:
        self.tab = self.session.active
        self._began = time.monotonic()
        self._shot: asyncio.Task[bytes] | None = None

    async def now(self) -> View:
        """Observe without waiting."""
        shot = self._shoot()
        looking = self.tab.told(self.tab.main.observe(**self.what))
        self.raw, _ = await asyncio.gather(looking, self.meanwhile())
        if shot is not None:
            self.pixels = decode_png(await shot, self.viewport)
        return await self._view()

    async def settled(self, settling: Settling) -> View:
        """Observe once the page is quiet."""
        # Screenshot and settling both wait for a frame to be drawn. For a still page, one frame serves both.
        standing = self.options.screenshot and self.tab.scripted and settling.bounds.frames == 1
        while True:
            await settling.wait_for_traffic()
            try:
                looked = await settling.within_load_bound(
                    self._one_frame() if standing else self._after_frames(settling)
                )
                if looked and settling.is_over() and not await settling.wait_for_reaction(self.raw):
                    return await (self._view() if standing else settling.within_load_bound(self._read()))
            except Exception as error:
                if not document_was_replaced(error) or settling.is_late():
                    raise
            standing = False

    async def _one_frame(self) -> bool:
        """Take the screenshot, then the pass; return whether the page has not changed since before the screenshot."""
        tab = self.tab
        if tab.time is not None and tab.main.handle is not None:
            return await self._in_frame(tab.time)
        edition = await tab.call("edition")  # read before the screenshot, to notice a change in between
        png = await tab.screenshot(settling=True)
        self.settled_at = time.monotonic()
        review = tab.main.observe("review", seen=edition, what=self.what)
        looking = asyncio.gather(tab.told(review), self.meanwhile())
        await asyncio.sleep(0)  # starts both; the screenshot is decoded meanwhile
        self.pixels = decode_png(png, self.viewport)
        raw, _ = await looking
        self.raw = with_told(raw, self.raw)
        return bool(self.raw["still"])

    async def _in_frame(self, page_time: PageTime) -> bool:
        """Run the pass while the frame's picture is made; return whether both show the same unchanged page.

        A request made during a frame is answered after it, and the page's time stands still meanwhile. The picture may
        be of a later frame if it is the page's first, or if a frame was already being drawn.
        """
        tab, handle, frames, drawing = self.tab, self.tab.main.handle, page_time.frames, page_time.drawing
        picture = page_time.picture(page_time.frame)
        looking: asyncio.Future[tuple[dict[str, Any], None]] | None = None
        try:
            edition = await tab.call("framed")  # requested before drawing, so that it refers to the picture's frame
            asked_for = page_time.asked_for
            self.settled_at = time.monotonic()
            review = tab.main.observe("review", seen=edition, what=self.what)
            looking = asyncio.gather(tab.told(review), self.meanwhile())
            png = base64.b64decode(await picture)
            frames = page_time.frames - frames
            self.pixels = decode_png(png, self.viewport)
            raw, _ = await looking
        finally:
            picture.cancel()
            if looking is not None:
                looking.cancel()
        self.raw = with_told(raw, self.raw)
        is_whole = asked_for is not None and page_time.asked_for == asked_for  # no image is left for the next frame
        return bool(raw["still"]) and tab.main.handle == handle and frames == 1 and not drawing and is_whole

    async def _after_frames(self, settling: Settling) -> bool:
        """Wait for quiet frames, then run the pass; return whether settling is over."""
        tab = self.tab
        began = time.monotonic()
        self._shot = self._shoot(settling=True)
        frames = settling.bounds.frames if tab.scripted else 0
        look = tab.main.observe("look", frames=frames, bound=settling.quiet_ms_left(), what=self.what)
        self.raw = with_told(await tab.told(look), self.raw)
        # Measured by the page's clock, or by ours if the page's time is held: the pass follows the last frame.
        self.settled_at = began + self.raw["waited"] / 1000 if tab.time is None else max(began, tab.time.last_frame)
        return settling.is_over()

    async def _read(self) -> View:
        """Return the view of the last pass, built while the browser answers the additional reads.

        The screenshot is retaken if the page changed before the pass.
        """
        reading = asyncio.ensure_future(self.meanwhile())
        try:
            await asyncio.sleep(0)  # sends the reads
            view = await self._view()
            await reading
        finally:
            reading.cancel()
        if self._shot is not None:
            png = await self._shot
            self.pixels = decode_png(png if self.raw["still"] else await self.tab.screenshot(), self.viewport)
        return view

    def _view(self) -> Awaitable[View]:
        return view_of(self.session, self.tab, self.options, self.raw, self._began)

    def _shoot(self, *, settling: bool = False) -> asyncio.Task[bytes] | None:
        if not self.options.screenshot:
            return None
        task = asyncio.ensure_future(self.tab.screenshot(settling=settling))
        task.add_done_callback(lambda done: None if done.cancelled() else done.exception())  # it may go unawaited
        return task


def _asked(session: Session, options: ViewOptions, origin: Any, screen: Any) -> dict[str, Any]:
    """Return the arguments of the in-page pass."""
    return {
        "firstId": session.next_id, "stamp": options.stamp_ids, "origin": origin, "screen": screen,
        "reach": options.reach, "limits": asdict(options.limits),
        "seek": None if options.seek is None else asdict(options.seek),
    }  # fmt: skip


async def _nothing() -> None:
    return None


async def _title(tab: Tab, raw: dict[str, Any], limits: Limits) -> str:
    if clip(tab.page.url, limits.url) == raw["url"]:
        return str(raw["title"])
    return clip(await tab.title(), limits.title)


Seen = tuple[list[Line], list[Element], list[str], dict[int, ForeignFrame], list[str]]


async def _unpacked(
    session: Session,
    tab: Tab,
    options: ViewOptions,
    raw: dict[str, Any],
    world: PageScript,
    at: ForeignFrame | None,
    screen: Any,
    until: float,
) -> Seen:
    """Unpack a pass, with the contents of the frames that it could not access, to any depth.

    Frames that have not answered by `until` (`time.monotonic`) are marked as not answering.
    """
    session.next_id = max(session.next_id, raw["nextId"])
    session.note_missed(raw["miss"])
    session.note_read_back(raw["readBack"])
    session.note_refused(raw["refused"])
    lines, elements = _unpack(raw)
    texts, faults = [raw["text"]], list(raw["faults"])
    foreign: dict[int, ForeignFrame] = {} if at is None else {element["id"]: at for element in elements}
    shift = 1
    for position, depth, index, origin in raw["opaque"]:
        asked = _asked(session, options, origin, screen)
        at_line = position + shift
        try:
            found = await _inside(tab, world, index, at, asked, until)
        except TimeoutError:
            _, line, distance = lines[at_line - 1]
            lines[at_line - 1] = (depth, f"{line} not answering", distance)
            continue
        if found is None:
            continue
        place, inner = found
        seen = await _unpacked(session, tab, options, inner, place.world, place, screen, until)
        lines[at_line - 1] = (
            depth,
            f"iframe {quote(inner['title'] or clip(inner['url'], 300))}",
            lines[at_line - 1][2],
        )
        block = [(depth + 1 + level, line, distance) for level, line, distance in seen[0]]
        lines[at_line:at_line] = block
        shift += len(block)
        elements += seen[1]
        texts += seen[2]
        foreign.update(seen[3])
        faults += seen[4]
    return lines, elements, texts, foreign, faults


async def _inside(
    tab: Tab, world: PageScript, index: int, at: ForeignFrame | None, asked: dict[str, Any], until: float
) -> tuple[ForeignFrame, dict[str, Any]] | None:
    """Observe a frame that `world` can't access; return None if the frame was removed meanwhile.

    A failure is retried once, because the frame may have moved to another process.

    Raises:
        TimeoutError: the frame hangs.
    """
    for _ in range(2):
        place = None
        try:
            async with limited(max(until - time.monotonic(), MOMENT)):
                place = await tab.enter(world, index, at)
                if place is None:
                    return None
                inner = await place.world.observe(**asked)
            await _mark_covered(inner, place, asked["origin"])
            return place, inner
        except TimeoutError:
            if place is not None:
                tab.leave_silent(place)
            raise
        except Exception:
            if place is not None:
                tab.drop(place)
    return None


async def _mark_covered(inner: dict[str, Any], place: ForeignFrame, origin: Sequence[float]) -> None:
    """Mark the elements of a frame that the page around it covers, which the frame itself can't detect."""
    shown = [one for one in inner["elements"] if one[7] and "covered" not in one[5]]
    if not shown:
        return
    left, top, across, down = origin
    points = [((x + w / 2 - left) / across, (y + h / 2 - top) / down) for x, y, w, h in (one[6] for one in shown)]
    async with asyncio.timeout(FRAME_BOUND):
        covers = await place.parent.call("overHolder", index=place.index, points=points)
    for one, cover in zip(shown, covers, strict=True):
        if cover is not None:
            one[5] += ["covered", f"by {cover}"]


def _unpack(raw: dict[str, Any]) -> tuple[list[Line], list[Element]]:
    elements: list[Element] = [
        {
            "id": id,
            "role": role,
            "name": name,
            "tag": tag,
            "value": value,
            "states": tuple(states),
            "bbox": (float(box[0]), float(box[1]), float(box[2]), float(box[3])),
            "in_viewport": shown,
            "frame": frame,
            "options": tuple(choices),
        }
        for id, role, name, tag, value, states, box, shown, frame, choices in raw["elements"]
    ]
    lines: list[Line] = [
        (depth, text if index < 0 else element_line(elements[index]), distance)
        for depth, text, index, distance in raw["lines"]
    ]
    return lines, elements
