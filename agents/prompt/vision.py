"""The page's picture for models that see images: the screenshot, with or without the elements' ids."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from selfsurf.browser_env.observation import Element, Observation
from selfsurf.browser_env.observe import marks

MAX_IMAGE_SIDE = 1280
"""Pixels of a picture's longer side; screenshots of the usual viewport are not scaled down."""

MARKS_NOTE = "The screenshot shows the page, with each element's id beside it."
SCREENSHOT_NOTE = "The screenshot shows the page."


@dataclass(frozen=True)
class Picture:
    """An image of the page for a prompt."""

    image: NDArray[np.uint8]
    """Pixels of shape (height, width, 3), RGB."""
    ids: frozenset[int] = frozenset()
    """Elements whose ids are drawn on the image."""
    note: str = SCREENSHOT_NOTE
    """Text of the prompt about the picture."""


def picture(obs: Observation, *, marked: bool, max_side: int | None = MAX_IMAGE_SIDE) -> Picture:
    """Make the picture of an observation.

    Args:
        obs: an observation with a screenshot; the boxes of its elements are in pixels of the screenshot.
        marked: draw boxes and ids. They are drawn after scaling down, so that the digits stay legible.
        max_side: maximum number of pixels of the longer side; None keeps the size.

    Raises:
        ValueError: there is no screenshot.
    """
    if "screenshot" not in obs:
        raise ValueError('There is no screenshot: make the environment with screenshot=True, or pass vision="none".')
    image, scale = _scaled(obs["screenshot"], max_side)
    if not marked:
        return Picture(image)
    elements = [_shrunk(element, scale) for element in obs["elements"] if _is_marked(element, obs["screenshot"])]
    return Picture(marks.draw(image, elements), frozenset(element["id"] for element in elements), MARKS_NOTE)


def _scaled(image: NDArray[np.uint8], max_side: int | None) -> tuple[NDArray[np.uint8], float]:
    longest = max(image.shape[:2])
    if max_side is None or longest <= max_side:
        return image, 1.0
    from PIL import Image

    scale = max_side / longest
    height, width = (max(1, round(side * scale)) for side in image.shape[:2])
    return np.asarray(Image.fromarray(image).resize((width, height), Image.Resampling.LANCZOS)), scale


def _shrunk(element: Element, scale: float) -> Element:
    x, y, width, height = element["bbox"]
    return {**element, "bbox": (x * scale, y * scale, width * scale, height * scale)}


def _is_marked(element: Element, image: NDArray[np.uint8]) -> bool:
    """Whether `browser_env.observe.marks.draw` draws the element."""
    x, y, width, height = element["bbox"]
    inside = x < image.shape[1] and y < image.shape[0] and x + width > 0 and y + height > 0
    return element["in_viewport"] and "covered" not in element["states"] and width > 0 and height > 0 and inside
