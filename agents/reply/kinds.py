"""The actions that a model can be offered, and what each may hold on a page: the source of grammar and schema."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from selfsurf.browser_env.observation import Element

KINDS = (
    "click", "fill", "type", "select", "hover", "press", "scroll", "navigate", "back", "forward", "new_tab",
    "close_tab", "wait", "message", "ask_user", "finish", "infeasible",
)  # fmt: skip
"""The actions that a model can be offered."""

DEFAULT_KINDS = ("click", "fill", "select", "press", "scroll", "finish")
"""The actions offered unless others are asked for."""

KEYS = (
    "Enter", "Tab", "Escape", "Space", "Backspace", "Delete", "ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight",
    "PageUp", "PageDown", "Home", "End", "Control+a", "Control+c", "Control+v",
)  # fmt: skip
"""The keys that can be pressed under a grammar or schema."""

EDITABLE_ROLES = frozenset({"textbox", "searchbox", "combobox", "spinbutton", "slider"})
_STATIC_INPUTS = frozenset({"button", "checkbox", "radio", "link", "menuitem", "switch", "tab", "option", "img"})

Value: TypeAlias = Sequence[int] | Sequence[str] | Literal[True] | None
"""What an argument may be: one of these numbers or words, only true, or (None) any text."""

WITHOUT_ELEMENT: dict[str, Value] = {
    "press": KEYS, "scroll": ("down", "up"), "wait": (200, 1000), "back": True, "forward": True, "close_tab": True,
    **dict.fromkeys(("navigate", "new_tab", "message", "ask_user", "finish", "infeasible")),
}  # fmt: skip
"""The main argument of the kinds that need no element."""


def is_editable(element: Element) -> bool:
    """Whether text can be filled into the element."""
    if element["tag"] == "select" or {"disabled", "readonly"} & set(element["states"]):
        return False
    if element["role"] in EDITABLE_ROLES:
        return True
    return element["tag"] in ("input", "textarea") and element["role"] not in _STATIC_INPUTS


def check_kinds(kinds: Sequence[str]) -> tuple[str, ...]:
    """Return the kinds as a tuple.

    Raises:
        ValueError: a kind is unknown, or there is none.
    """
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown or not kinds:
        raise ValueError(f"Unknown actions {unknown}: choose from {', '.join(KINDS)}.")
    return tuple(dict.fromkeys(kinds))


def offered(kinds: Sequence[str], elements: Sequence[Element]) -> tuple[str, ...]:
    """The kinds that are possible on a page with these elements; `wait` if there is no other."""
    fields = any(map(is_editable, elements))
    selects = any(element["tag"] == "select" for element in elements)
    need = {"click": bool(elements), "hover": bool(elements), "fill": fields, "type": fields, "select": selects}
    return tuple(kind for kind in kinds if need.get(kind, True)) or ("wait",)


def forms(kinds: Sequence[str], elements: Sequence[Element]) -> list[dict[str, Value]]:
    """The forms of the actions that a page allows, as compact JSON has them: names of arguments and their values.

    Args:
        kinds: the actions to offer.
        elements: the elements that may be acted on.
    """
    found: list[dict[str, Value]] = []
    for kind in offered(check_kinds(kinds), elements):
        if kind in ("click", "hover"):
            found.append({kind: _ids(elements)})
        elif kind in ("fill", "type"):
            found.append({kind: _ids(element for element in elements if is_editable(element)), "text": None})
        elif kind == "select":
            found += [{kind: _ids([one]), "option": _options(one)} for one in elements if one["tag"] == "select"]
        else:
            found.append({kind: WITHOUT_ELEMENT[kind]})
    return found


def _ids(elements: Iterable[Element]) -> list[int]:
    return sorted({element["id"] for element in elements})


def _options(element: Element) -> list[str] | None:
    """The labels of a `<select>` that can be written in a reply, each once; None if there is none."""
    labels = dict.fromkeys(element.get("options", ()))
    return [label for label in labels if label and label.isprintable()] or None
