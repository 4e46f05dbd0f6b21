"""Actions as Playwright calls: `page.get_by_label("Name").fill("Ada")`, `page.goto(url)`.

Only calls with an equivalent action are accepted. The text has been parsed already, and nothing is executed.
"""

from __future__ import annotations

import ast
from typing import Any

from selfsurf.browser_env.errors import ActionError
from selfsurf.browser_env.selector import STARTS, literals, spell, steps_of

FORM = (
    'An action is JSON such as {"action": "click", "id": 3}, or one call such as click("3") '
    'or page.get_by_role("button", name="Go").click().'
)

# name -> (action, positional parameters, fixed fields)
_Calls = dict[str, tuple[str, tuple[str, ...], dict[str, Any]]]

_AT_LOCATOR: _Calls = {
    "click": ("click", (), {}),
    "tap": ("click", (), {}),
    "dblclick": ("click", (), {"count": 2}),
    "focus": ("click", (), {}),
    "fill": ("fill", ("text",), {}),
    "clear": ("fill", (), {"text": ""}),
    "check": ("fill", (), {"text": "true"}),
    "uncheck": ("fill", (), {"text": "false"}),
    "set_checked": ("fill", ("text",), {}),
    "type": ("type", ("text",), {}),
    "press_sequentially": ("type", ("text",), {}),
    "press": ("press", ("key",), {}),
    "select_option": ("select", ("options",), {}),
    "hover": ("hover", (), {}),
    "scroll_into_view_if_needed": ("scroll", (), {}),
    "set_input_files": ("upload", ("files",), {}),
}
"""Methods of a locator. Methods of the page with these names take a selector first."""

_AT_PAGE: _Calls = {
    "goto": ("navigate", ("url",), {}),
    "go_back": ("back", (), {}),
    "go_forward": ("forward", (), {}),
    "reload": ("reload", (), {}),
    "close": ("close_tab", (), {}),
    "wait_for_timeout": ("wait", ("ms",), {}),
    "keyboard.press": ("press", ("key",), {}),
    "keyboard.type": ("type", ("text",), {}),
    "keyboard.insert_text": ("type", ("text",), {}),
    "mouse.click": ("click", ("x", "y"), {}),
    "mouse.dblclick": ("click", ("x", "y"), {"count": 2}),
    "mouse.move": ("hover", ("x", "y"), {}),
    "mouse.wheel": ("scroll", ("dx", "dy"), {}),
}

_NAMES = {
    "value": "text", "label": "options", "click_count": "count", "files": "files", "timeout": "", "no_wait_after": "",
    "force": "", "delay": "", "wait_until": "", "checked": "text", "delta_x": "dx", "delta_y": "dy", "steps": "",
}  # fmt: skip
"""Our fields by Playwright's named arguments; empty for arguments without effect here."""


def parse_playwright(function: ast.Attribute, node: ast.Call) -> dict[str, Any]:
    """Turn a method call into an action dict.

    Raises:
        ActionError: there is no equivalent action, or an argument is not a literal.
    """
    name, owner = function.attr, function.value
    if isinstance(owner, ast.Name) and owner.id == "page":
        return _page_call(name, node)
    if (
        isinstance(owner, ast.Attribute)
        and owner.attr in ("keyboard", "mouse")
        and isinstance(owner.value, ast.Name)
        and owner.value.id == "page"
    ):
        return _action(f"{owner.attr}.{name}", _AT_PAGE, *literals(name, node))
    if not _on_page(owner):
        raise ActionError(FORM)
    selector = spell(steps_of(owner))
    if name == "drag_to":
        if len(node.args) != 1:
            raise ActionError("drag_to takes one locator.")
        return {"action": "drag", "from": selector, "to": spell(steps_of(node.args[0]))}
    if name not in _AT_LOCATOR:
        _refuse(name)
    return {**_action(name, _AT_LOCATOR, *literals(name, node)), "selector": selector}


def _on_page(node: ast.expr) -> bool:
    """Whether a chain of calls starts with `page`, or with one of its locator calls."""
    while isinstance(node, ast.Call | ast.Attribute):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return node.func.id in STARTS
        node = node.func if isinstance(node, ast.Call) else node.value
    return isinstance(node, ast.Name) and node.id == "page"


def _page_call(name: str, node: ast.Call) -> dict[str, Any]:
    args, named = literals(name, node)
    if name == "drag_and_drop":
        if len(args) != 2 or named:
            raise ActionError("drag_and_drop takes two selectors.")
        return {"action": "drag", "from": args[0], "to": args[1]}
    if name in _AT_PAGE:
        return _action(name, _AT_PAGE, args, named)
    if name not in _AT_LOCATOR:
        _refuse(name)
    selector = named.pop("selector", None) if "selector" in named else args.pop(0) if args else None
    if selector is None:
        raise ActionError(f"page.{name} takes a selector first.")
    return {**_action(name, _AT_LOCATOR, args, named), "selector": selector}


def _action(name: str, calls: _Calls, args: list[Any], named: dict[str, Any]) -> dict[str, Any]:
    if name not in calls:
        _refuse(name)
    action, parameters, fixed = calls[name]
    if len(args) > len(parameters):
        raise ActionError(f"{name} takes at most {len(parameters)} arguments, not {len(args)}.")
    fields: dict[str, Any] = dict(zip(parameters, args, strict=False))
    for key, value in named.items():
        key = "options" if action == "select" and key == "value" else _NAMES.get(key, key)
        if key:
            fields[key] = value
    if isinstance(fields.get("files"), str):
        fields["files"] = (fields["files"],)
    if name == "set_checked":
        fields["text"] = str(bool(fields.get("text"))).lower()
    return {"action": action, **fixed, **fields}


def _refuse(name: str) -> None:
    known = sorted({*_AT_LOCATOR, *_AT_PAGE, "drag_to", "drag_and_drop"})
    raise ActionError(f"There is no action for {name!r}; the calls are {', '.join(known)}.")
