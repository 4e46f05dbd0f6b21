"""What tells one state of a page from another, whatever the environment puts into `obs["dom"]`."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from browser_env.actions import Action
from browser_env.observation import Element, Observation


def page_state(obs: Observation) -> Hashable:
    """Everything that an action may change, but element ids, which are others after a page was left and opened again.

    Scrolling changes where elements are, and so the state. The outline is no part of it: with `obs_mode="delta"` it
    tells changes.
    """
    tabs = tuple((tab["url"], tab["active"]) for tab in obs["tabs"])
    return obs["url"], tabs, obs["page_text"], tuple(map(_seen, obs["elements"]))


def action_key(action: Action, obs: Observation) -> Hashable:
    """What an action does, its element named by what it is and where, not by its id."""
    data: dict[str, Any] = action.to_dict()
    number = getattr(action, "id", None)
    element = next((element for element in obs["elements"] if element["id"] == number), None)
    if element is not None:
        del data["id"]
        return repr(data), element["role"], element["name"], element["frame"], element["bbox"]
    return repr(data)


def _seen(element: Element) -> Hashable:
    return (
        element["role"], element["name"], element["value"], element["states"], element["bbox"],
        element["in_viewport"], element["frame"],
    )  # fmt: skip
