"""Takes an observation of the active tab: one in-page pass and, if wanted, one screenshot, at the same time."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from browser_env.observation import Element
from browser_env.observation import Tab as TabView
from browser_env.outline import Line, element_line, render
from browser_env.session import Session
from browser_env.tab import Tab
from browser_env.task import Viewport

if TYPE_CHECKING:
    from playwright.async_api import Frame


@dataclass(frozen=True)
class ViewOptions:
    """How the page is looked at."""

    screenshot: bool = True
    stamp_ids: bool = False
    """Write ids into the page as `data-agent-id`."""
    budget: int | None = None
    """The most that the outline may measure; None for no limit."""
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
    foreign: dict[int, tuple[Frame, tuple[float, float]]] = field(default_factory=dict)
    """Elements in frames of another origin: the frame, and its offset in the top frame."""


async def look(session: Session, options: ViewOptions, viewport: Viewport) -> View:
    """Look at the session's active tab."""
    tab = session.active
    if options.screenshot:
        seen, png = await asyncio.gather(_see(session, tab, options), tab.screenshot())
    else:
        seen, png = await _see(session, tab, options), None
    raw, lines, elements, texts, foreign = seen
    titles = await asyncio.gather(*(_title(other, raw) for other in session.tabs))
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
    )


async def _title(tab: Tab, raw: dict[str, Any]) -> str:
    if tab.page.url == raw["url"]:
        return str(raw["title"])
    try:
        return await asyncio.wait_for(tab.page.title(), 1)
    except Exception:
        return ""  # a background tab that is loading or hung


async def _see(session: Session, tab: Tab, options: ViewOptions) -> tuple[Any, ...]:
    raw = await tab.observe(firstId=session.next_id, stamp=options.stamp_ids, origin=None)
    session.next_id = raw["nextId"]
    lines, elements = _unpack(raw)
    texts = [raw["text"]]
    foreign: dict[int, tuple[Frame, tuple[float, float]]] = {}
    shift = 0
    for position, depth, offset in raw["opaque"]:
        frame = await _frame_at(tab, offset)
        if frame is None:
            continue
        try:
            inner = await asyncio.wait_for(_see_frame(session, tab, frame, offset, options), 3)
        except Exception:  # a frame that hangs, or left while it was looked at, is left out of what is seen
            tab.forget_frames()
            continue
        inner_lines, inner_elements, text = inner
        block: list[Line] = [(depth, f"iframe {frame.url}", 0.0)]
        block += [(depth + 1 + level, line, distance) for level, line, distance in inner_lines]
        lines[position + shift : position + shift] = block
        shift += len(block)
        elements += inner_elements
        texts.append(text)
        foreign.update({element["id"]: (frame, (offset[0], offset[1])) for element in inner_elements})
    return raw, lines, elements, texts, foreign


async def _see_frame(
    session: Session, tab: Tab, frame: Frame, offset: list[float], options: ViewOptions
) -> tuple[list[Line], list[Element], str]:
    import json

    text = await tab.call_in_frame(frame, "observe", firstId=session.next_id, stamp=options.stamp_ids, origin=offset)
    raw = json.loads(text)
    session.next_id = raw["nextId"]
    lines, elements = _unpack(raw)
    return lines, elements, raw["text"]


async def _frame_at(tab: Tab, offset: list[float]) -> Frame | None:
    """Find the frame whose content box starts at `offset`."""
    for frame in tab.page.frames:
        if frame is tab.page.main_frame or frame.is_detached():
            continue
        try:
            holder = await frame.frame_element()
            box = await holder.bounding_box()
            border = await holder.evaluate("e => [e.clientLeft, e.clientTop]")
        except Exception:
            continue  # detached while looking
        if box and abs(box["x"] + border[0] - offset[0]) < 2 and abs(box["y"] + border[1] - offset[1]) < 2:
            return frame
    return None


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
