"""The short JSON that models write: `{"click":4}` for `{"action": "click", "id": 4}`.

The first key is the action's name and its value the action's main argument; a few tokens instead of a dozen.
"""

from __future__ import annotations

import json
from typing import Any

from selfsurf.browser_env.actions import Action, parse_action

SCROLL_STEP = 400
"""CSS pixels that `{"scroll":"down"}` moves."""

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
"""The argument that is the value of the action's name. `scroll` takes a direction, the rest take true."""

BARE = ("back", "forward", "close_tab")
"""Actions without arguments: `{"back":true}`."""


def expand(data: dict[str, Any]) -> dict[str, Any] | None:
    """Turn the compact dict into the full one, or return None if it is not compact. Arguments are not checked."""
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
    if name == "select" and "option" in rest:
        option = rest.pop("option")
        rest["options"] = [option] if isinstance(option, str) else option
    if isinstance(value, dict):
        return {**value, **rest, "action": name}
    if name == "type" and isinstance(value, str) and "text" not in rest:
        return {"action": name, "text": value, **rest}
    return {"action": name, MAIN[name]: value, **rest}


def compact(action: Action | dict[str, Any] | str) -> str:
    """Return the action as compact JSON without blanks.

    What the short form can't say (a click at a point, a double click) is given in full, except that scrolling
    keeps its direction only.

    Raises:
        ActionError: the action is malformed.
    """
    typed = parse_action(action)
    data = typed.to_dict()
    name = data.pop("action")
    short: dict[str, Any] | None = None
    if name == "scroll":
        dx, dy = float(data.get("dx", 0)), float(data.get("dy", 0))
        direction = ("right" if dx > 0 else "left") if abs(dx) > abs(dy) else ("up" if dy < 0 else "down")
        short = {name: direction}
        if "id" in data:
            short["id"] = data["id"]
    elif name in BARE:
        short = {name: True, **data}
    elif name == "select" and len(data["options"]) == 1:
        short = {name: data["id"], "option": data["options"][0]}
    elif name in MAIN:
        main = MAIN[name]
        if main in data:
            short = {name: data.pop(main), **data}
        elif name == "type" and list(data) == ["text"]:
            short = {name: data["text"]}
        elif not data:
            short = {name: getattr(typed, main)}
    if short is None:
        short = {"action": name, **data}
    return json.dumps(short, ensure_ascii=False, separators=(",", ":"))
