"""One tool for each kind of action, and conversion of a tool call to the text of a reply.

`{"thought": ..., "action": {"fill": 3, "text": "abc"}}` corresponds to the call `fill(thought=..., id=3, text="abc")`.
"""

from __future__ import annotations

import json
from typing import Any

from selfsurf.agents.kinds import KINDS
from selfsurf.agents.prompt.chat import ACTIONS
from selfsurf.agents.reply.schema import Schema, strict

_MAIN = {
    "press": "key", "scroll": "direction", "wait": "ms", "navigate": "url", "new_tab": "url", "focus_tab": "index",
    "message": "text", "ask_user": "question", "finish": "answer", "infeasible": "reason", "drag": "from",
}  # fmt: skip
"""Names of the main arguments by kind of action; `id` for the other kinds, which act on an element."""


def kind_tools(parameters: Schema) -> list[dict[str, Any]] | None:
    """Return a tool for each action that the parameters of the single tool allow, in strict mode's form.

    Returns:
        The tools; None if the parameters allow several actions in a reply, or actions that are not the environment's.
    """
    fields = strict(parameters)["properties"]
    if "action" not in fields or any(next(iter(one["properties"])) not in KINDS for one in fields["action"]["anyOf"]):
        return None
    tools = []
    for branch in fields["action"]["anyOf"]:
        (kind, value), *more = branch["properties"].items()
        own = {} if value["type"] == "boolean" else {_MAIN.get(kind, "id"): value}
        thought = {"thought": fields["thought"]} if "thought" in fields else {}
        arguments = {**thought, **own, **dict(more)}
        schema = {"type": "object", "properties": arguments, "required": list(arguments), "additionalProperties": False}
        function = {"name": kind, "description": _said(kind), "parameters": schema}
        tools.append({"type": "function", "function": function})
    return tools


def _said(kind: str) -> str:
    """Return a kind's description in the prompt, without its notation."""
    return ACTIONS[kind].partition("  ")[2]


def kind_fields(parameters: Schema, *, is_strict: bool) -> dict[str, Any] | None:
    """Return the request fields that make the reply a call of one of `kind_tools`; None if there are no such tools."""
    tools = kind_tools(parameters)
    if tools is None:
        return None
    if not is_strict:
        return {"tools": tools, "tool_choice": "required"}
    for tool in tools:
        tool["function"]["strict"] = True
    return {"tools": tools, "tool_choice": "required", "parallel_tool_calls": False}


def reply_of(name: str, arguments: str) -> str | None:
    """Return the reply that corresponds to a call; None if the arguments are unreadable."""
    try:
        given = json.loads(arguments or "{}")
    except ValueError:
        return None
    if not isinstance(given, dict):
        return None
    thought = given.pop("thought", None)
    main = given.pop(_MAIN.get(name, "id"), True)
    action = {name: main, **given}
    reply = {"action": action} if thought is None else {"thought": thought, "action": action}
    return json.dumps(reply, ensure_ascii=False)
