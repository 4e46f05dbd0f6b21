"""Conversion of actions to the compact JSON that models write: `{"click":4}` for `{"action": "click", "id": 4}`.

`browser_env.compact` describes the form and reads it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from selfsurf.agents.kinds import MAX_TEXT, WAITS, Labels, Text, Value, forms, label
from selfsurf.browser_env.actions import Action, Fill, Press, Scroll, Wait, parse_action
from selfsurf.browser_env.compact import BARE, MAIN
from selfsurf.browser_env.observation import Element


def compact(action: Action | dict[str, Any] | str, *, labels: Labels = False, elements: Sequence[Element] = ()) -> str:
    """Return the action as compact JSON without blanks.

    With `labels`, the action's element is also named if it is among `elements`, as `LLMAgent(labels=...)` requires:
    `{"on":"Send","click":4}`, `{"on":"Email","fill":3,"in":"Email","text":"..."}`; with `"fields"`
    `{"fill":3,"in":"Email","text":"..."}`.

    Actions without a compact form (a click at a point, a double click) are given in full. Scrolling is reduced to its
    direction.

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
    elif name == "upload" and "id" in data and len(data["files"]) == 1:
        short = {name: data["id"], "file": data["files"][0]}
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
    named = next((label(one) for one in elements if one["id"] == short.get(name)), None) if labels else None
    if named is not None and ("text" in short or "option" in short):
        short = {name: short.pop(name), "in": named, **short}
    if named is not None and labels is True and ("in" in short or name in ("click", "hover")):
        short = {"on": named, **short}
    short = {key: int(one) if isinstance(one, float) and one.is_integer() else one for key, one in short.items()}
    return json.dumps(short, ensure_ascii=False, separators=(",", ":"))


def as_written(action: Action, observation: Mapping[str, Any]) -> Action | None:
    """Return the action in the form that a guided reply can express; None for others, such as a double click.

    A key press loses its element if that has the focus, scrolling keeps only the direction, a wait gets the nearest
    length on offer, and filled text loses leading blanks.

    Args:
        action: the action as carried out.
        observation: the page before the action: `elements`, and `tabs` if there are several.
    """
    elements = observation["elements"]
    if isinstance(action, Press) and any(one["id"] == action.id and "focused" in one["states"] for one in elements):
        action = Press(key=action.key)
    elif isinstance(action, Scroll):
        action = parse_action(compact(action))
    elif isinstance(action, Wait):
        length = action.ms
        action = Wait(ms=min(WAITS, key=lambda ms: abs(ms - length)))
    elif isinstance(action, Fill):
        action = action.model_copy(update={"text": action.text.lstrip(" ")})
    short = json.loads(compact(action))
    possible = forms((action.name,), elements, tabs=observation.get("tabs", ()))
    sayable = any(
        short.keys() == form.keys() and all(_may_be(short[key], value) for key, value in form.items())
        for form in possible
    )
    return action if sayable else None


def _may_be(said: Any, value: Value) -> bool:
    if isinstance(value, Text):
        return isinstance(said, str) and (value is Text.SOME) <= len(said) <= MAX_TEXT
    return said is True if value is True else said in value
