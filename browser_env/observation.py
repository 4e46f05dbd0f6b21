"""The types of an observation. `browser_env.observe.capture` takes one; `browser_env.spaces` defines its space."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from selfsurf.browser_env.text import visible


class Element(TypedDict):
    """An interactive element."""

    id: int
    """Unique within the episode, across frames and shadow roots; an element keeps it for as long as it lives."""
    role: str
    """ARIA role, explicit or implied by the tag."""
    name: str
    """Accessible name."""
    tag: str
    """Lower-case tag name."""
    value: str
    """Current value of a field; empty if there is none."""
    states: tuple[str, ...]
    """Such as checked, disabled, expanded, focused, selected or covered; a shape in an SVG has its looks and its
    centre, such as `red circle 16x16 at 30,82`."""
    bbox: tuple[float, float, float, float]
    """x, y, width, height in CSS pixels of the top frame."""
    in_viewport: bool
    frame: str
    """URL of its frame; empty for the top frame."""
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
    """What the agent sees. There is no `screenshot` if the environment was made with `screenshot=False`."""

    screenshot: NDArray[np.uint8]
    """(height, width, 3), RGB, of the viewport."""


Info = dict[str, Any]
"""Gymnasium's `info`: `outcome`, `outcome_detail`, `trainable`, `score`, `seed` (of the episode), `timing`
(milliseconds), and `not_observed` if there are elements at which the observation failed."""


_NAVIGATED = "navigated: "
_REFUSED = re.compile(r".* \((\d{3})\)")


def page_status(events: Iterable[str], before: int | None = None) -> int | None:
    """Return the HTTP status of the page that the last navigation among events led to, where it is an error.

    Args:
        events: of an observation.
        before: the status of the page that was there before, returned if there was no navigation.
    """
    status = before
    for event in events:
        if event.startswith(_NAVIGATED):
            match = _REFUSED.fullmatch(event)
            status = int(match[1]) if match else None
    return status


def as_text(observation: Observation) -> str:
    """Return an observation as a text for people and models: goal, page, outline, and what the last action led to."""
    parts = [f"Goal: {observation['goal']}"] if observation["goal"] else []
    parts += [f"Page: {visible(observation['title'])} ({observation['url']})", observation["dom"]]
    if observation["last_action"]:
        parts.append(f"Last action: {observation['last_action']}")
    if observation["last_error"]:
        parts.append(f"Error: {observation['last_error']}")
    return "\n".join(parts)
