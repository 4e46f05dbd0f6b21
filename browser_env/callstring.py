"""Parsing of call strings, the usual form of web agents' actions: `click("12")`, `fill('7', 'x')`.

The text is parsed into a syntax tree, of which only literals are used; nothing is executed. Calls on `page` and on
locators are parsed by `browser_env.playwright_call`.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable
from typing import Any

from selfsurf.browser_env.errors import ActionError
from selfsurf.browser_env.playwright_call import FORM, parse_playwright
from selfsurf.browser_env.selector import literals, looks_like_selector

# name -> (action, positional parameters, fixed fields). The names on the left are BrowserGym's and our own.
CALLS: dict[str, tuple[str, tuple[str, ...], dict[str, Any]]] = {
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
    "reload": ("reload", (), {}),
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

_ELSEWHERE = {
    "mouse_down": "drag", "mouse_up": "drag", "keyboard_down": "press with a chord such as Control+a",
    "keyboard_up": "press with a chord such as Control+a",
}  # fmt: skip
"""Calls that would leave a key or button pressed after the step, and what to use instead."""

_KEYWORDS = {
    "bid": "id", "value": "text", "key_comb": "key", "from_bid": "from", "to_bid": "to", "wait_ms": "ms",
    "file": "files", "delta_x": "dx", "delta_y": "dy",
}  # fmt: skip


def parse_call(text: str) -> dict[str, Any]:
    """Turn a call string into an action dict.

    Raises:
        ActionError: the text is not a single call of a known name with literal arguments.
    """
    try:
        lines = ast.parse(text.strip()).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ActionError(FORM) from None
    if len(lines) > 1:
        raise ActionError(f"Give one action per step, not {len(lines)} lines of code.")
    node = lines[0].value if lines and isinstance(lines[0], ast.Expr) else None
    if isinstance(node, ast.Await):
        node = node.value
    if not isinstance(node, ast.Call):
        raise ActionError(FORM)
    if isinstance(node.func, ast.Attribute):
        return parse_playwright(node.func, node)
    if not isinstance(node.func, ast.Name):
        raise ActionError(FORM)
    return _named_call(node.func.id, node)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ` Did you mean ...?` for a word that is close to a known one, otherwise an empty text."""
    close = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=0.7)
    return f" Did you mean {close[0]}?" if close else ""


def _named_call(name: str, node: ast.Call) -> dict[str, Any]:
    if name in _ELSEWHERE:
        raise ActionError(f"{name} would leave something held down after the step; use {_ELSEWHERE[name]}.")
    if name not in CALLS:
        raise ActionError(f"Unknown action {name!r}.{did_you_mean(name, CALLS)} The calls are {', '.join(CALLS)}.")
    action, parameters, fixed = CALLS[name]
    values, named = literals(name, node)
    if name in ("press", "type") and len(values) == 1 and not {"key", "key_comb", "text", "value"} & set(named):
        parameters = parameters[1:] + parameters[:1]  # press("Enter"), type("text"): no element
    if len(values) > len(parameters):
        raise ActionError(f"{name} takes at most {len(parameters)} arguments, not {len(values)}.")
    fields: dict[str, Any] = dict(zip(parameters, values, strict=False))
    for key, value in named.items():
        if _KEYWORDS.get(key, key) in fields:
            raise ActionError(f"{name} is given {key} twice.")
        fields[_KEYWORDS.get(key, key)] = value
    if "from_x" in fields:
        try:
            fields = {"from": (fields["from_x"], fields["from_y"]), "to": (fields["to_x"], fields["to_y"])}
        except KeyError as missing:
            raise ActionError(f"{name} needs from_x, from_y, to_x and to_y; {missing} is missing.") from None
    for key in ("from", "to"):
        if key in fields:
            fields[key] = _element(fields[key])
    if "id" in fields:
        target = _element(fields.pop("id"))
        fields["selector" if isinstance(target, str) else "id"] = target
    if "files" in fields and isinstance(fields["files"], str):
        fields["files"] = (fields["files"],)
    return {"action": action, **fixed, **fields}


def _element(value: Any) -> Any:
    """Convert BrowserGym's text ids to integers. Integer ids and selectors are returned unchanged."""
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            if looks_like_selector(value):
                return value
            raise ActionError(
                f"{value!r} is not an element id; ids are the integers in the outline, "
                "selectors look like text=Go, role=button[name='Go'] or #go."
            ) from None
    return value
