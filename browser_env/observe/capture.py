"""Takes an observation of the active tab: one in-page pass and, optionally, one screenshot, at the same time."""

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
from selfsurf.browser_env.observation import Element
from selfsurf.browser_env.observation import Tab as TabView
from selfsurf.browser_env.observe.limits import Limits
from selfsurf.browser_env.observe.outline import Line, element_line, quote, render
from selfsurf.browser_env.observe.screenshot import decode_png
from selfsurf.browser_env.session.page_script import PageScript, document_was_replaced, with_told
from selfsurf.browser_env.session.patience import limited
from selfsurf.browser_env.session.session import Session
from selfsurf.browser_env.session.tab import ForeignFrame, Tab
from selfsurf.browser_env.task import Viewport
from selfsurf.browser_env.text import clip

if TYPE_CHECKING:
    from selfsurf.browser_env.session.page_time import PageTime

MOMENT = 0.5
"""Seconds for a frame to answer where loading has taken the time that it had."""


@dataclass(frozen=True)
class Sought:
    """A text that is looked for, so that the rest of the page may be left out (`page/branches.js`)."""

    text: str
    near: int
    """How many visible blocks are observed on each side of a candidate, which is an element that may have the text."""
    most: int
    """How many visible candidates are observed."""
    fields: bool
    """Are all fields observed?"""


@dataclass(frozen=True)
class ViewOptions:
    """What an observation contains."""

    screenshot: bool = True
    stamp_ids: bool = False
    """Write ids into the page as `data-agent-id`."""
    budget: int | None = None
    """The maximum size of the outline; None for no limit."""
    reach: float | None = 1.0
    """How many viewport heights above and below the viewport are observed; None for the whole page."""
    count: Callable[[str], int] = len
    """How the outline's size is measured: characters, or a tokenizer's count."""
    limits: Limits = field(default_factory=Limits)
    seek: Sought | None = None
    """The text for which alone the page is observed; None to observe all."""


@dataclass
class View:
    """What was seen."""

    url: str
    title: str
    tabs: tuple[TabView, ...]
    elements: tuple[Element, ...]
    dom: str
    page_text: str
    screenshot: NDArray[np.uint8] | None
    foreign: dict[int, ForeignFrame] = field(default_factory=dict)
    """Frames of another origin, by the ids of their elements."""
    waited: float = 0.0
    """Seconds spent settling."""
    faults: tuple[str, ...] = ()
    """Elements about which nothing could be said, and why: faults of the in-page script."""
    closing: bool = False
    """Is the page about to close, as it has asked for?"""


async def capture(
    session: Session,
    options: ViewOptions,
    viewport: Viewport,
    settling: Settling | None = None,
    meanwhile: Callable[[], Awaitable[None]] | None = None,
) -> View:
    """Observe the session's active tab.

    Args:
        session: whose tab.
        options: what the observation contains.
        viewport: size of the screenshot.
        settling: the tab's, to wait for; None to observe at once.
        meanwhile: whatever else is to be read from the quiet page; must not change it, and runs again if the page was
            not quiet after all.

    The screenshot is requested together with the pass, and again if the page changed before the pass: so the two show
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
        session: of the tab.
        tab: the tab.
        options: what the view contains.
        raw: the pass.
        began: when (`time.monotonic`) the observation began: from then on frames have `FRAME_BOUND` to answer.
    """
    until = (min(began, tab.begun_at) if tab.loading(-1) else began) + FRAME_BOUND  # of which loading has taken a part
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
    """One observation of a tab: the pass, the screenshot and whatever else is read, as concurrently as possible."""

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
        # A screenshot waits for a frame to be drawn, and so does settling: for a page that stands still, one is enough.
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
        edition = await tab.call("edition")  # before the screenshot: a change between the two must not go unnoticed
        png = await tab.screenshot(settling=True)
        self.settled_at = time.monotonic()
        review = tab.main.observe("review", seen=edition, what=self.what)
        looking = asyncio.gather(tab.told(review), self.meanwhile())
        await asyncio.sleep(0)  # both are pending now, and the screenshot is decoded meanwhile
        self.pixels = decode_png(png, self.viewport)
        raw, _ = await looking
        self.raw = with_told(raw, self.raw)
        return bool(self.raw["still"])

    async def _in_frame(self, page_time: PageTime) -> bool:
        """The same, with the pass while the picture of the frame is made: what is asked in a frame comes after it.

        The page's time stands still meanwhile. The picture may be of a later frame if it is the page's first, or if one
        was being drawn already.
        """
        tab, handle, frames, drawing = self.tab, self.tab.main.handle, page_time.frames, page_time.drawing
        picture = page_time.picture(page_time.frame)
        looking: asyncio.Future[tuple[dict[str, Any], None]] | None = None
        try:
            edition = await tab.call("framed")  # asked before anything is drawn, it means the frame of the picture
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
        is_whole = asked_for is not None and page_time.asked_for == asked_for  # or pictures are in the next frame only
        return bool(raw["still"]) and tab.main.handle == handle and frames == 1 and not drawing and is_whole

    async def _after_frames(self, settling: Settling) -> bool:
        """Wait for quiet frames, then run the pass; return whether nothing is pending."""
        tab = self.tab
        began = time.monotonic()
        self._shot = self._shoot(settling=True)
        frames = settling.bounds.frames if tab.scripted else 0
        look = tab.main.observe("look", frames=frames, bound=settling.quiet_ms_left(), what=self.what)
        self.raw = with_told(await tab.told(look), self.raw)
        # By the page's clock, or where that is held by ours: the pass follows the last frame.
        self.settled_at = began + self.raw["waited"] / 1000 if tab.time is None else max(began, tab.time.last_frame)
        return settling.is_over()

    async def _read(self) -> View:
        """Return the view of the last pass, which is made while the browser answers whatever else is asked.

        The screenshot is retaken if the page changed before the pass.
        """
        reading = asyncio.ensure_future(self.meanwhile())
        try:
            await asyncio.sleep(0)  # it is asked now
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
        task.add_done_callback(lambda done: None if done.cancelled() else done.exception())  # it may never be awaited
        return task


def _asked(session: Session, options: ViewOptions, origin: Any, screen: Any) -> dict[str, Any]:
    """Return the arguments of a pass."""
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

    Those that have not answered by `until` (`time.monotonic`) say so.
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
    """Observe a frame that `world` can't access; None for one that was removed meanwhile.

    What fails is tried once more: the frame may have moved to another process.

    Raises:
        TimeoutError: it hangs.
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
    """Mark the elements of a frame that something in the page around it covers, which only that page can know."""
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
