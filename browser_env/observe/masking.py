"""Search for secrets shown in the active tab, and their masking in the screenshot. The page is not modified."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from selfsurf.browser_env.browser.page_script import read_script, with_dom
from selfsurf.browser_env.safety.lines import INLINE, Piece, with_calls
from selfsurf.browser_env.safety.redaction import Redactor
from selfsurf.browser_env.session.tab import Tab

if TYPE_CHECKING:
    from playwright.async_api import Frame

    from selfsurf.browser_env.browser.devtools import ProtocolSession

Box = tuple[float, float, float, float]
"""Box as x, y, width and height in CSS pixels of the top frame's viewport."""

MASK_COLOUR = (128, 128, 128)
"""RGB color of masked boxes."""

_FRAME_BOUND = 2.0
"""Maximum seconds for a frame of another process to respond."""

_ANYWHERE = 1e5
"""Width and height in pixels that reach beyond any screenshot."""

_CONTENT = """(e) => { const style = getComputedStyle(e);
return [e.clientLeft + parseFloat(style.paddingLeft), e.clientTop + parseFloat(style.paddingTop)]; }"""
"""JavaScript that returns the offset of a frame's document within the box of the frame element."""


async def secret_boxes(tab: Tab, patterns: Sequence[str], *, private: bool = False) -> list[Box]:
    """Return the boxes where a tab shows a match of one of the patterns, in all frames.

    Args:
        tab: tab to search.
        patterns: regular expressions in JavaScript syntax.
        private: whether to include all filled fields, and all text that a log masks (`Redactor.line`).
    """
    boxes = await boxes_in_process(tab.protocol, patterns, private=private)
    for frame in tab.page.frames[1:]:
        with contextlib.suppress(Exception):  # the frame is in the page's own process, searched above, or was removed
            try:
                async with asyncio.timeout(_FRAME_BOUND):
                    session = await tab.page.context.new_cdp_session(frame)
                    try:
                        if place := await _place_of(frame):
                            boxes += await boxes_in_process(session, patterns, place, private=private)
                    finally:
                        await session.detach()
            except TimeoutError:  # the frame hangs and still shows its content: a secret may be anywhere in it
                boxes.append(await _box_of(frame))
    return boxes


async def _place_of(frame: Frame) -> tuple[float, float] | None:
    """Return the position of a frame's document in the top frame; None if the frame is not shown."""
    holder = await frame.frame_element()
    box = await holder.bounding_box()
    border = await holder.evaluate(_CONTENT)
    return (box["x"] + border[0], box["y"] + border[1]) if box else None


async def _box_of(frame: Frame) -> Box:
    """Return the box of a frame that doesn't respond, or of everything if its parent doesn't respond either."""
    try:
        async with asyncio.timeout(_FRAME_BOUND):
            box = await (await frame.frame_element()).bounding_box()
    except TimeoutError:
        return 0.0, 0.0, _ANYWHERE, _ANYWHERE
    return (box["x"], box["y"], box["width"], box["height"]) if box else (0.0, 0.0, 0.0, 0.0)


async def boxes_in_process(
    session: ProtocolSession,
    patterns: Sequence[str],
    offset: tuple[float, float] = (0.0, 0.0),
    *,
    private: bool = False,
) -> list[Box]:
    """Return the boxes from all frames of one process (see `secret_boxes`). `offset` is that of its topmost frame."""
    tree = (await session.send("Page.getFrameTree"))["frameTree"]
    boxes = await _in_frame(session, tree["frame"]["id"], patterns, offset, private)
    todo = list(tree.get("childFrames", []))
    while todo:
        branch = todo.pop()
        todo += branch.get("childFrames", [])
        id = branch["frame"]["id"]
        with contextlib.suppress(Exception):  # the frame is hidden or was removed
            owner = await session.send("DOM.getFrameOwner", {"frameId": id})
            model = await session.send("DOM.getBoxModel", {"backendNodeId": owner["backendNodeId"]})
            x, y = model["model"]["content"][:2]
            boxes += await _in_frame(session, id, patterns, (offset[0] + x, offset[1] + y), private)
    return boxes


async def _in_frame(
    session: ProtocolSession,
    frame: str,
    patterns: Sequence[str],
    offset: tuple[float, float],
    private: bool,
) -> list[Box]:
    world = await session.send("Page.createIsolatedWorld", {"frameId": frame, "worldName": "selfsurf-secrets"})

    async def call(function: str, *arguments: Any) -> Any:
        answer: dict[str, Any] = await session.send(
            "Runtime.callFunctionOn",
            {
                "executionContextId": world["executionContextId"],
                "functionDeclaration": function,
                "arguments": [{"value": one} for one in arguments],
                "returnByValue": True,
            },
        )
        return None if "exceptionDetails" in answer else answer["result"].get("value")

    inline = sorted(INLINE) if private else None
    page = await call(with_dom(read_script("secret_boxes")), list(patterns), inline)
    shown = page and page["boxes"]
    if page and (found := await asyncio.to_thread(_private_parts, page["lines"], page["values"])):
        more = await call("function (found) { return boxesOf(found) }", found)
        shown = None if more is None else [*shown, *more]
    if shown is None:  # the page may cause this deliberately: a secret may be anywhere
        return [(*offset, _ANYWHERE, _ANYWHERE)]
    return [(x + offset[0], y + offset[1], width, height) for x, y, width, height in shown]


def _private_parts(lines: Sequence[Sequence[Sequence[Any]]], values: Iterable[str]) -> list[tuple[int, int, int, int]]:
    """Return the private parts of a page's lines, including the given values: line, piece, start and end."""
    pieces = ([Piece(text, tag, calls, cell=(*cell,)) for text, tag, calls, cell in line] for line in lines)
    read = [*with_calls(pieces)]
    redactor = Redactor(values)
    redactor.learn_calls(read)
    return [
        (number, piece, span.start, span.end)
        for number, line in enumerate(read)
        for piece, spans in enumerate(redactor.line(line))
        for span in spans
    ]


def mask(picture: NDArray[np.uint8], boxes: Iterable[Box]) -> NDArray[np.uint8]:
    """Return a copy of a screenshot with the boxes masked, each extended by a pixel on every side."""
    picture = picture.copy()
    for x, y, width, height in boxes:
        left, top = max(0, math.floor(x) - 1), max(0, math.floor(y) - 1)
        picture[top : max(0, math.ceil(y + height) + 1), left : max(0, math.ceil(x + width) + 1)] = MASK_COLOUR
    return picture
