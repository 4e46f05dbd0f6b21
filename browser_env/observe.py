"""Takes an observation of the active tab: one in-page pass and, if wanted, one screenshot, at the same time."""

from __future__ import annotations

import asyncio
import io
import json
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from browser_env.observation import Element
from browser_env.observation import Tab as TabView
from browser_env.outline import Line, element_line, render
from browser_env.session import Session
from browser_env.settle import Bounds, Watch
from browser_env.tab import Place, Tab
from browser_env.task import Viewport
from browser_env.world import World, page_went_away

FRAME_BOUND = 3.0
"""Seconds for a frame of another origin to answer; one that does not is left out of the observation."""


@dataclass(frozen=True)
class ViewOptions:
    """How the page is looked at."""

    screenshot: bool = True
    stamp_ids: bool = False
    """Write ids into the page as `data-agent-id`."""
    budget: int | None = None
    """The most that the outline may measure; None for no limit."""
    reach: float | None = 1.0
    """How many viewport heights above and below the viewport are looked at; None for the whole page."""
    count: Callable[[str], int] = len
    """How the outline is measured: characters, or a tokenizer's count."""


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
    foreign: dict[int, Place] = field(default_factory=dict)
    """Elements in frames of another origin: where the frame is."""
    waited: float = 0.0
    """Seconds that settling took of the time."""


async def look(
    session: Session,
    options: ViewOptions,
    viewport: Viewport,
    bounds: Bounds | None = None,
    since: int = -1,
    meanwhile: Callable[[], Awaitable[None]] | None = None,
) -> View:
    """Look at the session's active tab.

    Args:
        session: whose tab.
        options: how.
        viewport: size that the screenshot is brought to.
        bounds: wait until the page is quiet first, for so long at most; None: look at once.
        since: the tab's clock before the action; what was under way already isn't waited for.
        meanwhile: what else is to be read of the page once it is quiet; it must not change the page.

    The screenshot is asked for together with the pass, and taken again if the page changed before the pass: then the
    two show the same.
    """
    start = time.monotonic()
    tab = session.active
    waited = 0.0
    if bounds is None:
        shot = _start(tab.screenshot()) if options.screenshot else None
        raw = await tab.main.observe(**_what(session, options))
    else:
        raw, shot, waited = await _settled(session, tab, options, bounds, since, start)
    seen, titles, png, _ = await asyncio.gather(
        _unpacked(session, tab, options, raw, tab.main, None, raw["scroll"][4:6]),
        asyncio.gather(*(_title(other, raw) for other in session.tabs)),
        _picture(tab, shot, raw),
        meanwhile() if meanwhile else _nothing(),
    )
    lines, elements, texts, foreign = seen
    tabs = tuple(
        TabView(url=other.page.url, title=title, active=other is tab)
        for other, title in zip(session.tabs, titles, strict=True)
    )
    return View(
        url=raw["url"],
        title=raw["title"],
        tabs=tabs,
        elements=tuple(sorted(elements, key=lambda element: not element["in_viewport"])),
        dom=render(lines, options.budget, options.count),
        page_text="\n".join(texts),
        screenshot=None if png is None else decode_png(png, viewport),
        foreign=foreign,
        waited=waited,
    )


async def _settled(
    session: Session, tab: Tab, options: ViewOptions, bounds: Bounds, since: int, start: float
) -> tuple[dict[str, Any], asyncio.Task[bytes] | None, float]:
    watch = Watch(tab, bounds, since)
    while True:
        await watch.traffic()
        began = time.monotonic()
        shot = _start(tab.screenshot()) if options.screenshot else None
        frames = bounds.frames if tab.scripted else 0
        try:
            raw = await tab.main.observe("look", frames=frames, bound=watch.quiet_left(), what=_what(session, options))
        except Exception as error:
            if not page_went_away(error) or watch.late():
                raise
            continue
        if watch.over():
            return raw, shot, began - start + raw["waited"] / 1000


async def _picture(tab: Tab, shot: asyncio.Task[bytes] | None, raw: dict[str, Any]) -> bytes | None:
    if shot is None:
        return None
    png = await shot
    return png if raw.get("still", True) else await tab.screenshot()


async def _nothing() -> None:
    return None


def _start(work: Coroutine[Any, Any, bytes]) -> asyncio.Task[bytes]:
    task = asyncio.ensure_future(work)
    task.add_done_callback(lambda done: None if done.cancelled() else done.exception())  # it may not be needed
    return task


def _what(session: Session, options: ViewOptions) -> dict[str, Any]:
    return {
        "firstId": session.next_id, "stamp": options.stamp_ids, "origin": None, "screen": None, "reach": options.reach
    }  # fmt: skip


async def _title(tab: Tab, raw: dict[str, Any]) -> str:
    if tab.page.url == raw["url"]:
        return str(raw["title"])
    try:
        return await asyncio.wait_for(tab.page.title(), 1)
    except Exception:
        return ""  # a background tab that is loading or hung


Seen = tuple[list[Line], list[Element], list[str], dict[int, Place]]


async def _unpacked(
    session: Session, tab: Tab, options: ViewOptions, raw: dict[str, Any], world: World, at: Place | None, screen: Any
) -> Seen:
    """Unpack what the pass saw, with what is in the frames that it could not look into, to any depth."""
    session.next_id = max(session.next_id, raw["nextId"])
    lines, elements = _unpack(raw)
    texts = [raw["text"]]
    foreign: dict[int, Place] = {} if at is None else {element["id"]: at for element in elements}
    shift = 1
    for position, depth, index, origin in raw["opaque"]:
        place = None
        try:
            place = await tab.enter(world, index, at)
            if place is None:
                continue
            async with asyncio.timeout(FRAME_BOUND):
                inner = await place.world.observe(
                    firstId=session.next_id, stamp=options.stamp_ids, origin=origin, screen=screen, reach=options.reach
                )
        except Exception:  # a frame that hangs, or left while it was looked at, is left out of what is seen
            if place is not None:
                tab.drop(place)
            continue
        seen = await _unpacked(session, tab, options, inner, place.world, place, screen)
        at_line = position + shift
        lines[at_line - 1] = (depth, f"iframe {json.dumps(inner['title'] or inner['url'])}", lines[at_line - 1][2])
        block = [(depth + 1 + level, line, distance) for level, line, distance in seen[0]]
        lines[at_line:at_line] = block
        shift += len(block)
        elements += seen[1]
        texts += seen[2]
        foreign.update(seen[3])
    return lines, elements, texts, foreign


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


def decode_png(data: bytes, viewport: Viewport) -> NDArray[np.uint8]:
    """Decode a screenshot to an RGB array of (height, width, 3), at CSS pixel size."""
    from PIL import Image

    image: Image.Image = Image.open(io.BytesIO(data))
    if image.size != viewport:
        image = image.resize(viewport)
    return np.asarray(image.convert("RGB"), dtype=np.uint8)
