"""Parsing of selectors, which name an action's target in place of an id; `act.locator` finds the element.

Two forms: a Playwright selector (`text=Go`, `role=button[name="Go"]`, `#go`, `xpath=//a`), or a chain of its locator
calls (`get_by_role("button", name="Go").nth(1)`). Chains are parsed into a syntax tree, of which only literals are
used; nothing is executed.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import Any

from selfsurf.browser_env.errors import ActionError

_TEXT = ("exact",)
_METHODS: dict[str, tuple[int, tuple[str, ...]]] = {
    "locator": (1, ("has_text", "has_not_text")),
    "frame_locator": (1, ()),
    "get_by_role": (
        1,
        ("name", "exact", "checked", "disabled", "expanded", "include_hidden", "level", "pressed", "selected"),
    ),
    "get_by_text": (1, _TEXT),
    "get_by_label": (1, _TEXT),
    "get_by_placeholder": (1, _TEXT),
    "get_by_alt_text": (1, _TEXT),
    "get_by_title": (1, _TEXT),
    "get_by_test_id": (1, ()),
    "nth": (1, ()),
    "filter": (0, ("has_text", "has_not_text", "visible")),
}
"""Locator methods, with their number of positional arguments and their named arguments."""

_PROPERTIES = ("first", "last", "content_frame")
STARTS = tuple(name for name in _METHODS if name.startswith("get_by_") or name.endswith("locator"))
_CHAIN = re.compile(rf"(?:page\.)?(?:{'|'.join(STARTS)})\(")

_TAGS = frozenset(
    [
        "a", "article", "button", "canvas", "dialog", "div", "fieldset", "footer", "form", "h1", "h2", "h3", "h4", "h5",
        "h6", "header", "iframe", "img", "input", "label", "li", "main", "nav", "ol", "option", "p", "section",
        "select", "span", "summary", "svg", "table", "tbody", "td", "textarea", "th", "tr", "ul", "video",
    ]
)  # fmt: skip


@dataclass(frozen=True)
class Step:
    """One step of a locator chain: a method with its literal arguments, or a property."""

    method: str
    args: tuple[Any, ...] = ()
    named: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        if self.method in _PROPERTIES:
            return self.method
        arguments = [repr(value) for value in self.args] + [f"{key}={value!r}" for key, value in self.named.items()]
        return f"{self.method}({', '.join(arguments)})"


def spell(steps: tuple[Step, ...]) -> str:
    """Return a selector as text: the argument of a single `locator`, or the chain."""
    if len(steps) == 1 and steps[0].method == "locator" and not steps[0].named:
        return str(steps[0].args[0])
    return ".".join(str(step) for step in steps)


def looks_like_selector(text: str) -> bool:
    """Whether a text could be a selector. A single word is a selector only if it is the name of a tag."""
    return text in _TAGS or re.search(r"[^\w\s-]", text) is not None


def parse_selector(text: str) -> tuple[Step, ...]:
    """Parse a selector into steps.

    Raises:
        ActionError: the selector is empty, a number, or a chain that is not made of locator calls with literals.
    """
    text = text.strip()
    if not text or text.lstrip("-").isdigit():
        raise ActionError(f"{text!r} is not a selector; ids are given as numbers, selectors look like text=Go or #go.")
    if not _CHAIN.match(text):
        return (Step("locator", (text,)),)
    try:
        node = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ActionError(f"The selector {text!r} is not a complete chain of locator calls.") from None
    return steps_of(node)


def steps_of(node: ast.expr) -> tuple[Step, ...]:
    """Parse a chain of locator calls, with or without `page.` before it.

    Raises:
        ActionError: the chain contains something else.
    """
    steps: list[Step] = []
    while True:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
            steps.append(_call(name, node))
            if isinstance(node.func, ast.Name):
                break
            node = node.func.value
        elif isinstance(node, ast.Attribute) and node.attr in _PROPERTIES:
            steps.append(Step(node.attr))
            node = node.value
        elif isinstance(node, ast.Name) and node.id in ("page", "frame") and steps:
            break
        else:
            raise ActionError(
                f"{_source(node)} is not a locator; use page.locator(...), page.get_by_role(...) or a similar call."
            )
    steps.reverse()
    if steps[0].method not in STARTS:
        raise ActionError(f"A selector begins with {', '.join(STARTS)}, not {steps[0].method}.")
    return tuple(steps)


def _call(name: str, node: ast.Call) -> Step:
    if name in _PROPERTIES:
        raise ActionError(f"{name} is a property: write it without parentheses.")
    if name not in _METHODS:
        raise ActionError(f"Unknown locator {name!r}; known are {', '.join(_METHODS)}, first and last.")
    positional, known = _METHODS[name]
    args, named = literals(name, node)
    if len(args) != positional or set(named) - set(known):
        takes = [f"{positional} argument{'s' if positional != 1 else ''}" if positional else "", ", ".join(known)]
        raise ActionError(f"{name} takes {' and '.join(part for part in takes if part)}.")
    wanted = int if name == "nth" else str
    if not all(isinstance(value, wanted) and not isinstance(value, bool) for value in args):
        raise ActionError(f"{name} takes {'a number' if wanted is int else 'text'}, not {args[0]!r}.")
    for key, value in named.items():
        text = key in ("name", "has_text", "has_not_text")
        if not isinstance(value, str if text else int if key == "level" else bool):
            raise ActionError(f"{key} of {name} can't be {value!r}.")
    return Step(name, tuple(args), named)


def literals(name: str, node: ast.Call) -> tuple[list[Any], dict[str, Any]]:
    """Return a call's positional and named arguments.

    Raises:
        ActionError: an argument is not a literal, or is unpacked with `**`.
    """
    if any(keyword.arg is None for keyword in node.keywords):
        raise ActionError(f"The arguments of {name} must be given one by one.")
    try:
        args = [ast.literal_eval(arg) for arg in node.args]
        named = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in node.keywords}
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise ActionError(f"The arguments of {name} must be literals, such as numbers and quoted text.") from None
    return args, named


def _source(node: ast.expr) -> str:
    try:
        text = ast.unparse(node)
    except (ValueError, RecursionError):
        text = type(node).__name__
    return repr(text if len(text) <= 60 else text[:57] + "...")
