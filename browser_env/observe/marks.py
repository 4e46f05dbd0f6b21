"""Set-of-marks and crops: boxes and ids of elements drawn on a screenshot's array, never on the page.

Works on any array of (height, width, 3) and any elements with boxes in its coordinates: those of an observation, or
those of a scan on its stitched screenshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from selfsurf.browser_env.observation import Element

Pixels = NDArray[np.uint8]
Box = tuple[int, int, int, int]
"""A box: left, top, right, bottom in pixels; right and bottom are exclusive."""

_COLOURS = (
    (200, 30, 30), (20, 90, 200), (0, 120, 60), (150, 40, 170), (175, 85, 0), (0, 115, 130), (190, 20, 110),
    (80, 80, 80),
)  # fmt: skip
"""Colours of the boxes, all dark enough for white digits: a contrast of 4.5 or more."""

_BY_ROLE = {
    "button": 0, "link": 1, "textbox": 2, "searchbox": 2, "spinbutton": 2, "checkbox": 3, "radio": 3, "switch": 3,
    "combobox": 4, "listbox": 4, "option": 4, "slider": 4, "tab": 5, "menuitem": 5, "treeitem": 5,
}  # fmt: skip

_CELL = 2
"""Side in pixels of the grid cells that record what labels must not hide."""


def draw(
    screenshot: Pixels,
    elements: Sequence[Element],
    *,
    viewport_only: bool = True,
    covered: bool = False,
    colours: Literal["role", "id"] = "role",
    size: int | None = None,
) -> Pixels:
    """Return the screenshot with a box around every element and its id beside it.

    Labels are placed where they hide neither another label nor a small element or, failing that, where they hide least.

    Args:
        screenshot: not modified; a copy is drawn on.
        elements: their boxes are in pixels of the screenshot.
        viewport_only: skip elements that aren't `in_viewport`; False to go by their boxes alone.
        covered: also mark elements that are covered by something else.
        colours: `"role"`, one per kind of element, or `"id"`, cycling.
        size: height of the digits in pixels; None chooses 8 to 12 by the size of the screenshot.

    Raises:
        ValueError: the screenshot is not of (height, width, 3).
    """
    height, width = _shape(screenshot)
    pixels = screenshot.copy()
    size = size or int(np.clip(min(height, width) // 55, 8, 12))
    marked: list[tuple[Element, Box]] = []
    for element in elements:
        if (viewport_only and not element["in_viewport"]) or (not covered and "covered" in element["states"]):
            continue
        box = _pixel_box(element, width, height)
        if box is not None:
            marked.append((element, box))
    hues = [_colour(element, colours) for element, _ in marked]
    for (_, box), hue in zip(marked, hues, strict=True):
        _outline(pixels, box, hue)
    labels = [_label(element["id"], size, hue) for (element, _), hue in zip(marked, hues, strict=True)]
    places = _places([box for _, box in marked], [label.shape[:2] for label in labels], width, height)
    for (left, top, right, bottom), label in zip(places, labels, strict=True):
        pixels[top:bottom, left:right] = label[: bottom - top, : right - left]
    return pixels


def crop(screenshot: Pixels, element: Element, margin: int = 8) -> Pixels:
    """Return the part of the screenshot that shows an element, as an array of its own.

    Args:
        screenshot: the element's box is in its pixels.
        element: may be partly outside; then the part inside is returned.
        margin: pixels around the element, within the screenshot.

    Raises:
        ValueError: nothing of the element is in the screenshot.
    """
    height, width = _shape(screenshot)
    box = _pixel_box(element, width, height)
    if box is None:
        shown = ", ".join(f"{side:g}" for side in element["bbox"])
        raise ValueError(
            f"Element {element['id']} is outside of the screenshot of {width} by {height} pixels. Scroll to it first. "
            f"Its box (x, y, width, height) is {shown}."
        )
    left, top, right, bottom = box
    return screenshot[max(0, top - margin) : bottom + margin, max(0, left - margin) : right + margin].copy()


def crops(screenshot: Pixels, elements: Iterable[Element], margin: int = 8) -> dict[int, Pixels]:
    """Return the crops of several elements by id, leaving out those that are outside of the screenshot."""
    height, width = _shape(screenshot)
    inside = (element for element in elements if _pixel_box(element, width, height) is not None)
    return {element["id"]: crop(screenshot, element, margin) for element in inside}


def _shape(screenshot: Pixels) -> tuple[int, int]:
    if screenshot.ndim != 3 or screenshot.shape[2] != 3:
        raise ValueError(f"A screenshot must have the shape (height, width, 3), not {screenshot.shape}.")
    return screenshot.shape[0], screenshot.shape[1]


def _pixel_box(element: Element, width: int, height: int) -> Box | None:
    """Return the part of an element's box that is inside the screenshot; None if there is none."""
    x, y, wide, high = element["bbox"]
    if wide <= 0 or high <= 0:
        return None
    left, top = max(0, int(np.floor(x))), max(0, int(np.floor(y)))
    right, bottom = min(width, int(np.ceil(x + wide))), min(height, int(np.ceil(y + high)))
    return (left, top, right, bottom) if left < right and top < bottom else None


def _colour(element: Element, colours: str) -> tuple[int, int, int]:
    number = element["id"] if colours == "id" else _BY_ROLE.get(element["role"], 7)
    return _COLOURS[number % len(_COLOURS)]


def _outline(pixels: Pixels, box: Box, colour: tuple[int, int, int]) -> None:
    left, top, right, bottom = box
    thick = 1 if min(right - left, bottom - top) < 24 else 2
    pixels[top : top + thick, left:right] = colour
    pixels[bottom - thick : bottom, left:right] = colour
    pixels[top:bottom, left : left + thick] = colour
    pixels[top:bottom, right - thick : right] = colour


def _places(boxes: list[Box], shapes: list[tuple[int, int]], width: int, height: int) -> list[Box]:
    """Choose places for labels of given (height, width), starting with small elements, which have the least room."""
    taken = np.zeros((height // _CELL + 1, width // _CELL + 1), dtype=np.uint8)  # cost of covering each cell
    for box, (high, wide) in zip(boxes, shapes, strict=True):
        if _area(box) < 8 * high * wide:
            np.maximum(_cells(taken, box), 1, out=_cells(taken, box))
    places = boxes.copy()
    for index in sorted(range(len(boxes)), key=lambda index: _area(boxes[index])):
        least = np.inf
        for place in _candidates(boxes[index], shapes[index], width, height):
            hidden = int(_cells(taken, place).sum())
            if hidden < least:
                places[index], least = place, hidden
            if hidden == 0:
                break
        _cells(taken, places[index])[:] = 20
    return places


def _cells(taken: Pixels, box: Box) -> Pixels:
    left, top, right, bottom = box
    return taken[top // _CELL : -(-bottom // _CELL), left // _CELL : -(-right // _CELL)]


def _area(box: Box) -> int:
    return (box[2] - box[0]) * (box[3] - box[1])


def _candidates(box: Box, shape: tuple[int, int], width: int, height: int) -> Iterable[Box]:
    """Yield places for a label: outside at the corners and sides, then inside, then a little further away."""
    left, top, right, bottom = box
    high, wide = shape
    middle = (top + bottom - high) // 2
    for x, y in (
        (left, top - high), (right - wide, top - high), (left, bottom), (right - wide, bottom),
        (left - wide, middle), (right, middle), (left - wide, top - high), (right, top - high),
        (left - wide, bottom), (right, bottom),
        (left, top), (right - wide, top), (left, bottom - high), (right - wide, bottom - high),
        (left - wide, top), (right, top), (left, top - 2 * high), (left, bottom + high),
        (left - 2 * wide, middle), (right + wide, middle),
    ):  # fmt: skip
        if x >= 0 and y >= 0 and x + wide <= width and y + high <= height:
            yield x, y, x + wide, y + high
    x, y = min(max(0, left), max(0, width - wide)), min(max(0, top - high), max(0, height - high))
    yield x, y, min(x + wide, width), min(y + high, height)


@cache
def _digits(size: int) -> tuple[NDArray[np.float64], ...]:
    """Return images of the digits 0 to 9, `size` pixels high, as the share of white in each pixel."""
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default(size * 1.4)
    digits = []
    for digit in "0123456789":
        image = Image.new("L", (4 * size, 4 * size))
        ImageDraw.Draw(image).text((size, size), digit, fill=255, font=font)
        drawn = np.asarray(image) / 255
        columns = np.flatnonzero(drawn.any(axis=0))
        digits.append(drawn[:, columns[0] : columns[-1] + 1])
    used = np.flatnonzero(np.any([digit.any(axis=1) for digit in digits], axis=0))
    return tuple(digit[used[0] : used[-1] + 1] for digit in digits)


@lru_cache(4096)
def _label(number: int, size: int, hue: tuple[int, int, int]) -> Pixels:
    """Return the image of an id in white on a colour, with a pixel of padding around each digit."""
    digits = _digits(size)
    gap = np.zeros((digits[0].shape[0], 1))
    parts = [part for digit in str(number) for part in (digits[int(digit)], gap)]
    white = np.pad(np.hstack([gap, *parts]), ((1, 1), (0, 0)))[..., None]
    return np.asarray(white * 255 + (1 - white) * np.array(hue), dtype=np.uint8)
