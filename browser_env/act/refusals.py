"""Reasons why an element can't be acted on, as sentences for the agent."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from selfsurf.browser_env.errors import ActionError
from selfsurf.browser_env.outline import quote
from selfsurf.browser_env.text import visible

if TYPE_CHECKING:
    from selfsurf.browser_env.errors import ErrorType

_EXAMPLES = {
    "date": "2026-01-31",
    "time": "13:45",
    "datetime-local": "2026-01-31T13:45",
    "month": "2026-01",
    "week": "2026-W05",
    "color": "#ff8800",
}
"""Examples for input types with a fixed format."""


_REFUSALS = {
    "unknown": "There is no element {id} on the page; use an id from the outline.",
    "gone": "Element {id} is no longer on the page.",
    "disabledOption": "The option {option!r} of element {id} is disabled.",
    "disabled": "Element {id} is disabled.",
    "inert": "Element {id} is inert: it can't be used now.",
    "modal": "Element {id} is behind an open dialog; answer or close that first.",
    "hidden": "Element {id} is not visible.",
    "mouseless": "Element {id} can't be clicked now: it ignores the mouse (pointer-events: none).",
    "moved": "The page moved the focus from element {id} to {what}; nothing was typed.",
    "readonly": "Element {id} is read-only; it can't be typed into.",
    "format": "Element {id} did not accept the text; a field of type {type} takes {example}.",
    "number": "Element {id} takes {numbers}.",
    "long": "Element {id} takes at most {limit} characters, not {length}.",
    "truth": "Element {id} is a {kind}: fill it with true or false, or click it.",
    "radio": "Element {id} is a radio button, which can't be unchecked; choose another of its group.",
    "file": "Element {id} is a file input; use upload.",
    "folder": "Element {id} takes a whole folder, which can't be uploaded.",
    "option": "Element {id} has no option {option!r}; it has {offered}.",
    "closed": "Element {id} is a {kind} that shows no options; click it to open it, then choose one.",
    "ambiguous": "Element {id} has several options {quoted}: choose {either}.",
    "alike": "Element {id} has several options {quoted}: click {either}.",
    "single": "Element {id} takes one option only.",
    "several": "Element {id} may take only one option; to choose several, click each: {offered}.",
    "noText": "Element {id} does not hold the text {text!r}, so it can't be selected.",
    "kind": "Element {id} is a {kind}, for which this action doesn't work.",
    "stepped": "Element {id} is a custom {kind}: press arrow keys in it, or drag it.",
}
"""Messages for the agent by the in-page script's error codes (`page/act.js`)."""


_NOT_FOUND = ("unknown", "gone")
_BLOCKED = ("disabledOption", "disabled", "inert", "modal", "hidden", "readonly", "closed", "mouseless", "moved")

_NUMBER = re.compile(r"[-+.:\dTWe]{1,30}")


def refused(id: int, answer: dict[str, Any]) -> ActionError:
    """Return the in-page script's refusal to act on element `id` as an error."""
    code = answer["error"]
    kind: ErrorType = "not_found" if code in _NOT_FOUND else "blocked" if code in _BLOCKED else "invalid_arguments"
    return ActionError(refusal(id, answer), kind)


def refusal(id: int, answer: dict[str, Any]) -> str:
    """Return the in-page script's refusal to act on element `id` as a sentence."""
    offered = [visible(one) for one in answer.get("options", ())]
    more = {
        "quoted": quote(str(answer.get("option", ""))),
        "either": " or ".join(offered),
        "example": _EXAMPLES.get(answer.get("type", ""), ""),
        "numbers": _numbers(answer),
        "offered": ", ".join(
            quote(one) if re.search(r'[,;"\\]', one) else visible(one) for one in answer.get("options", ())
        ),
    }
    return _REFUSALS.get(answer["error"], "Element {id}: {error}.").format(**{**answer, **more, "id": id})


def _numbers(answer: dict[str, Any]) -> str:
    low, high, step = (
        value if _NUMBER.fullmatch(value or "") else "" for value in map(answer.get, ("min", "max", "step"))
    )
    words = "a number"
    if low and high:
        words += f" from {low} to {high}"
    elif low or high:
        words += f" of at least {low}" if low else f" of at most {high}"
    return words + (f" in steps of {step}" if step else "")
