"""Call strings, the convention of the field: `click("12")`, `fill('7', 'x')`, `scroll(0, 200)`.

The text is parsed into a syntax tree and only literals are taken from it; nothing is executed.
"""

from __future__ import annotations

import ast
from typing import Any

from browser_env.errors import ActionError

_ELEMENT = frozenset({"id", "from", "to"})

# name -> (action, positional parameters, fixed fields). The names on the left are BrowserGym's and our own.
_CALLS: dict[str, tuple[str, tuple[str, ...], dict[str, Any]]] = {
    "click": ("click", ("id", "button", "modifiers"), {}),
    "dblclick": ("click", ("id", "button", "modifiers"), {"count": 2}),
    "focus": ("click", ("id",), {}),
    "clear": ("fill", ("id",), {"text": ""}),
    "fill": ("fill", ("id", "text"), {}),
    "type": ("type", ("id", "text"), {}),
    "press": ("press", ("id", "key"), {}),
    "select": ("select", ("id", "options"), {}),
    "select_option": ("select", ("id", "options"), {}),
    "hover": ("hover", ("id",), {}),
    "scroll": ("scroll", ("dx", "dy"), {}),
    "drag": ("drag", ("from", "to"), {}),
    "drag_and_drop": ("drag", ("from", "to"), {}),
    "upload": ("upload", ("id", "files"), {}),
    "upload_file": ("upload", ("id", "files"), {}),
    "mouse_click": ("click", ("x", "y", "button"), {}),
    "mouse_dblclick": ("click", ("x", "y", "button"), {"count": 2}),
    "mouse_move": ("hover", ("x", "y"), {}),
    "mouse_drag_and_drop": ("drag", ("from_x", "from_y", "to_x", "to_y"), {}),
    "keyboard_press": ("press", ("key",), {}),
    "keyboard_type": ("type", ("text",), {}),
    "keyboard_insert_text": ("type", ("text",), {}),
    "navigate": ("navigate", ("url",), {}),
    "goto": ("navigate", ("url",), {}),
    "back": ("back", (), {}),
    "go_back": ("back", (), {}),
    "forward": ("forward", (), {}),
    "go_forward": ("forward", (), {}),
    "new_tab": ("new_tab", ("url",), {}),
    "close_tab": ("close_tab", (), {}),
    "tab_close": ("close_tab", (), {}),
    "focus_tab": ("focus_tab", ("index",), {}),
    "tab_focus": ("focus_tab", ("index",), {}),
    "wait": ("wait", ("ms",), {}),
    "noop": ("wait", ("ms",), {}),
    "message": ("message", ("text",), {}),
    "send_msg_to_user": ("message", ("text",), {}),
    "ask_user": ("ask_user", ("question",), {}),
    "finish": ("finish", ("answer",), {}),
    "infeasible": ("infeasible", ("reason",), {}),
    "report_infeasible": ("infeasible", ("reason",), {}),
}  # fmt: skip

_KEYWORDS = {
    "bid": "id", "value": "text", "key_comb": "key", "from_bid": "from", "to_bid": "to", "wait_ms": "ms",
    "file": "files", "delta_x": "dx", "delta_y": "dy",
}  # fmt: skip


def parse_call(text: str) -> dict[str, Any]:
    """Turn a call string into an action dict.

    Raises:
        ActionError: not one call of a known name with literal arguments.
    """
    try:
        node = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        node = None
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise ActionError('An action is JSON such as {"action": "click", "id": 3}, or one call such as click("3").')
    name = node.func.id
    if name not in _CALLS:
        raise ActionError(f"Unknown action {name!r}; the calls are {', '.join(_CALLS)}.")
    action, parameters, fixed = _CALLS[name]
    try:
        values = [ast.literal_eval(arg) for arg in node.args]
        named = {keyword.arg: ast.literal_eval(keyword.value) for keyword in node.keywords}
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise ActionError(f"The arguments of {name} must be literals, such as numbers and quoted text.") from None
    if name in ("press", "type") and len(values) == 1 and not named:
        parameters = parameters[1:]  # press("Enter"), type("text"): no element
    if len(values) > len(parameters):
        raise ActionError(f"{name} takes at most {len(parameters)} arguments, not {len(values)}.")
    fields: dict[str, Any] = dict(zip(parameters, values, strict=False))
    for key, value in named.items():
        if key is None:
            raise ActionError(f"The arguments of {name} must be given one by one.")
        fields[_KEYWORDS.get(key, key)] = value
    if "from_x" in fields:
        try:
            fields = {"from": (fields["from_x"], fields["from_y"]), "to": (fields["to_x"], fields["to_y"])}
        except KeyError as missing:
            raise ActionError(f"{name} needs from_x, from_y, to_x and to_y; {missing} is missing.") from None
    for key in _ELEMENT & fields.keys():
        fields[key] = _element(fields[key])
    if "files" in fields and isinstance(fields["files"], str):
        fields["files"] = (fields["files"],)
    return {"action": action, **fixed, **fields}


def _element(value: Any) -> Any:
    """BrowserGym's element ids are text; ours are integers."""
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            raise ActionError(f"{value!r} is not an element id; ids are the integers in the outline.") from None
    return value
