"""Types of observations. `observe.capture` creates them; `environment.spaces` defines their space."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from selfsurf.browser_env.text import visible


class Element(TypedDict):
    """An interactive element of a page."""

    id: int
    """Element id, unique within the episode across frames and shadow roots, and constant for the element's lifetime."""
    role: str
    """ARIA role, explicit or implied by the tag."""
    name: str
    """Accessible name."""
    tag: str
    """Lower-case tag name."""
    value: str
    """Current value of a field; empty if there is none."""
    states: tuple[str, ...]
    """States such as checked, disabled, expanded, focused, selected or covered; for an SVG shape, its appearance and
    centre, such as `red circle 16x16 at 30,82`."""
    bbox: tuple[float, float, float, float]
    """Bounding box: x, y, width, height in CSS pixels of the top frame."""
    in_viewport: bool
    frame: str
    """URL of the element's frame; empty for the top frame."""
    options: tuple[str, ...]
    """Labels of a `<select>`'s options; empty for other elements."""


class Tab(TypedDict):
    """An open tab."""

    url: str
    title: str
    active: bool


class ChatMessage(TypedDict):
    """A message of the chat with the user."""

    role: str
    text: str


class _Required(TypedDict):
    goal: str
    url: str
    title: str
    tabs: tuple[Tab, ...]
    elements: tuple[Element, ...]
    dom: str
    """Outline of the page, two spaces per level: texts, and elements as `[id] role "name" value="..." states`."""
    page_text: str
    events: tuple[str, ...]
    messages: tuple[ChatMessage, ...]
    last_action: str
    last_error: str


class Observation(_Required, total=False):
    """An observation for the agent. `screenshot` is missing if the environment was made with `screenshot=False`."""

    screenshot: NDArray[np.uint8]
    """Screenshot of the viewport, (height, width, 3), RGB."""


Info = dict[str, Any]
"""Gymnasium's `info`: `outcome`, `outcome_detail`, `trainable`, `score`, `seed` (of the episode), `timing`
(milliseconds), and `not_observed` if some elements could not be observed."""


_NAVIGATED = "navigated: "
_REFUSED = re.compile(r".* \((\d{3})\)")


def page_status(events: Iterable[str], before: int | None = None) -> int | None:
    """Return the HTTP error status of the page that the last navigation led to; None if the page has no error.

    Args:
        events: events of an observation.
        before: status of the previous page, returned if there was no navigation.
    """
    status = before
    for event in events:
        if event.startswith(_NAVIGATED):
            match = _REFUSED.fullmatch(event)
            status = int(match[1]) if match else None
    return status


def as_text(observation: Observation) -> str:
    """Return an observation as text for people and models: goal, page, outline, last action and its error."""
    parts = [f"Goal: {observation['goal']}"] if observation["goal"] else []
    parts += [f"Page: {visible(observation['title'])} ({observation['url']})", observation["dom"]]
    if observation["last_action"]:
        parts.append(f"Last action: {observation['last_action']}")
    if observation["last_error"]:
        parts.append(f"Error: {observation['last_error']}")
    return "\n".join(parts)
