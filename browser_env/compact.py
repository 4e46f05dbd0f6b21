"""The compact form of an action: `{"click": 4}` for `{"action": "click", "id": 4}`.

The first key is the action's name and its value the action's main argument; a few tokens instead of a dozen.
`agents.reply.compact` writes it.
"""

from __future__ import annotations

from typing import Any

SCROLL_STEP = 400
"""CSS pixels that `{"scroll":"down"}` scrolls."""

_SCROLLS: dict[str, dict[str, int]] = {
    "down": {"dy": SCROLL_STEP},
    "up": {"dy": -SCROLL_STEP},
    "right": {"dx": SCROLL_STEP},
    "left": {"dx": -SCROLL_STEP},
}

MAIN: dict[str, str] = {
    "click": "id", "fill": "id", "type": "id", "press": "key", "select": "id", "hover": "id", "drag": "from",
    "upload": "id", "navigate": "url", "new_tab": "url", "focus_tab": "index", "wait": "ms", "message": "text",
    "ask_user": "question", "finish": "answer", "infeasible": "reason",
}  # fmt: skip
"""Main argument of each action, given as the value of the action's name. `scroll` takes a direction instead."""

_ONE = {"select": {"option": "options"}, "upload": {"file": "files"}}
"""Singular names for a list's only item, as in `{"select":5,"option":"Red"}`."""

BARE = ("back", "forward", "reload", "close_tab")
"""Actions without arguments, such as `{"back":true}`."""


def expand(data: dict[str, Any]) -> dict[str, Any] | None:
    """Expand a compact dict to the full one; return None if the dict is not compact. Arguments are not checked."""
    if "action" in data:
        return None
    name = next((key for key in data if key in MAIN or key in BARE or key == "scroll"), None)
    if name is None:
        return None
    value = data[name]
    rest = {key: item for key, item in data.items() if key != name}
    if name in BARE:
        return {"action": name, **rest}
    if name == "scroll":
        if isinstance(value, str) and value.lower() in _SCROLLS:
            return {"action": name, **_SCROLLS[value.lower()], **rest}
        if not isinstance(value, dict):
            return {"action": name, "dy": value, **rest}
    for one, several in _ONE.get(name, {}).items():
        if one in rest:
            only = rest.pop(one)
            rest[several] = [only] if isinstance(only, str) else only
    if isinstance(value, dict):
        return {**value, **rest, "action": name}
    if name == "type" and isinstance(value, str) and "text" not in rest:
        return {"action": name, "text": value, **rest}
    return {"action": name, MAIN[name]: value, **rest}
