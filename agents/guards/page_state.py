"""What tells one state of a page from another, whatever the environment puts into `obs["dom"]`."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

from selfsurf.browser_env.actions import Action
from selfsurf.browser_env.observation import Element, Observation

_CLOCK = re.compile(
    r"\b\d{1,2}:\d{2}(?::\d{2})?(?:\.\d+)?(?: ?[ap]m)?\b"
    r"|\b\d+ ?(?:ms|s|secs?|seconds?|mins?|minutes?|hours?) (?:ago|left)\b",
    re.IGNORECASE,
)


def page_state(obs: Observation, *, focus: bool = True) -> Hashable:
    """Everything that an action may change, but element ids, which are others after a page was left and opened again.

    Scrolling changes where elements are, and so the state. What passes by itself is no part of it: times of day,
    ages, and what is left of a time. Nor is the outline: with `obs_mode="delta"` it tells changes.

    Args:
        obs: the page.
        focus: whether it counts which element has the focus.
    """
    tabs = tuple((tab["url"], tab["active"]) for tab in obs["tabs"])
    elements = tuple(_seen(element, focus) for element in obs["elements"])
    return obs["url"], tabs, _CLOCK.sub("", obs["page_text"]), elements


def action_key(action: Action, obs: Observation) -> Hashable:
    """What an action does, its element named by what it is and where, not by its id."""
    data: dict[str, Any] = action.to_dict()
    number = getattr(action, "id", None)
    element = next((element for element in obs["elements"] if element["id"] == number), None)
    if element is not None:
        del data["id"]
        return repr(data), element["role"], element["name"], element["frame"], element["bbox"]
    return repr(data)


def _seen(element: Element, focus: bool) -> Hashable:
    states = tuple(state for state in element["states"] if focus or state != "focused")
    return (
        element["role"], _CLOCK.sub("", element["name"]), element["value"], states, element["bbox"],
        element["in_viewport"], element["frame"],
    )  # fmt: skip
