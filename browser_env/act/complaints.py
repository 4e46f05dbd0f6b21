"""What is wrong with an action's target, as one sentence that the agent can act on."""

from __future__ import annotations

from typing import Any

_EXAMPLES = {
    "date": "2026-01-31",
    "time": "13:45",
    "datetime-local": "2026-01-31T13:45",
    "month": "2026-01",
    "week": "2026-W05",
    "color": "#ff8800",
}
"""Input types that take one format only, and a value in it."""


def complaint(id: int, answer: dict[str, Any]) -> str:
    """Put the in-page script's complaint about element `id` into words."""
    match answer["error"]:
        case "unknown":
            return f"There is no element {id} on the page; use an id from the outline."
        case "gone":
            return f"Element {id} is no longer on the page."
        case "disabledOption":
            return f"The option {answer['option']!r} of element {id} is disabled."
        case "disabled":
            return f"Element {id} is disabled."
        case "inert":
            return f"Element {id} is inert: the page lets nobody use it now."
        case "modal":
            return f"Element {id} is behind an open dialog; answer or close that first."
        case "hidden":
            return f"Element {id} is not visible."
        case "readonly":
            return f"Element {id} is read-only; it can't be typed into."
        case "format":
            example = _EXAMPLES[answer["type"]]
            return f"Element {id} did not accept the text; a field of type {answer['type']} takes {example}."
        case "number":
            return f"Element {id} takes {_numbers(answer)}."
        case "long":
            return f"Element {id} takes at most {answer['limit']} characters, not {answer['length']}."
        case "truth":
            return f"Element {id} is a {answer['kind']}: fill it with true or false, or click it."
        case "radio":
            return f"Element {id} is a radio button, which can't be unchecked; choose another of its group."
        case "file":
            return f"Element {id} is a file input; use upload."
        case "option":
            return f"Element {id} has no option {answer['option']!r}; it has {', '.join(answer['options'])}."
        case "closed":
            return f"Element {id} is a {answer['kind']} that shows no options; click it to open it, then choose one."
        case "single":
            return f"Element {id} takes one option only."
        case "noText":
            return f"Element {id} does not hold the text {answer['text']!r}, so it can't be marked."
        case "kind":
            return f"Element {id} is a {answer['kind']}, which this action is not for."
    return f"Element {id}: {answer['error']}."


def _numbers(answer: dict[str, Any]) -> str:
    low, high, step = answer.get("min"), answer.get("max"), answer.get("step")
    words = "a number"
    if low and high:
        words += f" from {low} to {high}"
    elif low or high:
        words += f" of at least {low}" if low else f" of at most {high}"
    return words + (f" in steps of {step}" if step else "")
