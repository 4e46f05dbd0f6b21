"""Writes actions as the short JSON that models write: `{"click":4}` for `{"action": "click", "id": 4}`.

`browser_env.act.compact` describes the form and reads it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from selfsurf.agents.reply.kinds import label
from selfsurf.browser_env.act.compact import BARE, MAIN
from selfsurf.browser_env.actions import Action, parse_action
from selfsurf.browser_env.observation import Element


def compact(action: Action | dict[str, Any] | str, *, labels: Sequence[Element] = ()) -> str:
    """Return the action as compact JSON without blanks.

    With `labels`, the label of a field of those elements follows its id, as `LLMAgent(labels=True)` replies.

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
    if "text" in short or "option" in short:
        labelled = next((label(one) for one in labels if one["id"] == short.get(name)), None)
        short = short if labelled is None else {name: short.pop(name), "in": labelled, **short}
    short = {key: int(one) if isinstance(one, float) and one.is_integer() else one for key, one in short.items()}
    return json.dumps(short, ensure_ascii=False, separators=(",", ":"))
