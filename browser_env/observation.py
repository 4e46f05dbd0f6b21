"""What an observation holds, as types. `browser_env.observe.capture` takes one; `browser_env.spaces` has its space."""

from __future__ import annotations

from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray


class Element(TypedDict):
    """An interactive element."""

    id: int
    """Unique in the episode, across frames and shadow roots; the same as long as the element lives."""
    role: str
    """ARIA role, explicit or implied by the tag."""
    name: str
    """Accessible name."""
    tag: str
    """Lower-case tag name."""
    value: str
    """Current value of a field; empty where there is none."""
    states: tuple[str, ...]
    """Such as checked, disabled, expanded, focused, selected, covered; of a shape in an SVG what it looks like and
    where its middle is, such as `red circle 16x16 at 30,82`."""
    bbox: tuple[float, float, float, float]
    """x, y, width, height in CSS pixels of the top frame."""
    in_viewport: bool
    frame: str
    """URL of the frame that holds it; empty for the top frame."""
    options: tuple[str, ...]
    """Labels of a `<select>`'s options; empty elsewhere."""


class Tab(TypedDict):
    """An open tab."""

    url: str
    title: str
    active: bool


class ChatMessage(TypedDict):
    """A line of the chat with the user."""

    role: str
    text: str


class _Required(TypedDict):
    goal: str
    url: str
    title: str
    tabs: tuple[Tab, ...]
    elements: tuple[Element, ...]
    dom: str
    """Outline: two blanks a level; `[id] role "name" value="..." states`, static text between."""
    page_text: str
    events: tuple[str, ...]
    messages: tuple[ChatMessage, ...]
    last_action: str
    last_error: str


class Observation(_Required, total=False):
    """What the agent sees. `screenshot` is absent when the environment was made with `screenshot=False`."""

    screenshot: NDArray[np.uint8]
    """(height, width, 3), RGB, of the viewport."""


Info = dict[str, Any]
"""Gymnasium's `info`: `outcome`, `outcome_detail`, `trainable`, `score`, `timing` (milliseconds)."""
