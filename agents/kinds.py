"""Kinds of actions that a model can be offered, and their possible arguments on a page, for both grammar and schema."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Literal, TypeAlias

from selfsurf.browser_env.observation import Element, Tab

KINDS = (
    "click", "fill", "type", "select", "hover", "press", "scroll", "drag", "upload", "navigate", "back", "forward",
    "reload", "new_tab", "focus_tab", "close_tab", "wait", "message", "ask_user", "finish", "infeasible",
)  # fmt: skip
"""Kinds of actions that a model can be offered: all that the environment supports."""

DEFAULT_KINDS = ("click", "fill", "select", "press", "scroll", "finish")
"""Kinds of actions that are offered by default."""

OPEN_KINDS = (
    "click", "fill", "select", "press", "scroll", "upload", "navigate", "back", "focus_tab", "close_tab", "wait",
    "finish", "infeasible",
)  # fmt: skip
"""Kinds of actions offered to a small model by default for a goal that no task judges, which may lead to any site."""

GROUPS: dict[str, tuple[str, ...]] = {"default": DEFAULT_KINDS, "open": OPEN_KINDS, "all": KINDS}
"""Names of groups of kinds."""

KEYS = (
    "Enter", "Tab", "Escape", "Space", "Backspace", "Delete", "ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight",
    "PageUp", "PageDown", "Home", "End", "Control+a", "Control+c", "Control+v",
)  # fmt: skip
"""Keys that can be pressed under a grammar or schema."""

MAX_TEXT = 200
"""Character limit of a string in a reply without a thought."""

MOST_LABEL = 60
"""Character limit of an element's name as a label in a reply; elements with longer names are labelled by role."""

EDITABLE_ROLES = frozenset({"textbox", "searchbox", "combobox", "spinbutton", "slider"})
_STATIC_INPUTS = frozenset({"button", "checkbox", "radio", "link", "menuitem", "switch", "tab", "option", "img"})


class Text(Enum):
    """Kinds of text arguments; the values are their names in grammars."""

    ANY = "TEXT"
    SOME = "SOME_TEXT"
    """Any text that is not empty."""
    VALUE = "VALUE"
    """Text without a leading blank, since small models begin a text with the blank that precedes their next word."""


WAITS = (200, 1000)
"""Lengths of a wait that can be chosen, in milliseconds."""

Value: TypeAlias = Sequence[int] | Sequence[str] | Literal[True] | Text
"""Possible values of an argument: one of these numbers or words, only true, or a text."""

Labels: TypeAlias = bool | Literal["fields"]
"""Labels in a reply besides ids: False for none, `"fields"` for a field's label before its text or option, True also
for every element's label before its id."""

Texts: TypeAlias = Literal["free", "goal"]
"""Texts that a reply may fill in or type: any text, or only texts of the goal (`agents.reply.said`)."""

WITHOUT_ELEMENT: dict[str, Value] = {
    "press": KEYS, "scroll": ("down", "up"), "wait": WAITS, "focus_tab": range(10),
    "back": True, "forward": True, "reload": True, "close_tab": True, "navigate": Text.SOME,
    **dict.fromkeys(("new_tab", "message", "ask_user", "finish", "infeasible"), Text.ANY),
}  # fmt: skip
"""Possible main arguments of the kinds of actions without an element."""


def is_editable(element: Element) -> bool:
    """Whether text can be filled into the element."""
    if element["tag"] == "select" or {"disabled", "readonly"} & set(element["states"]):
        return False
    if element["role"] in EDITABLE_ROLES:
        return True
    return element["tag"] in ("input", "textarea") and element["role"] not in _STATIC_INPUTS


def takes_files(element: Element) -> bool:
    """Whether files can be chosen for the element: a file input, its stand-in, or a button that may open a chooser."""
    return "disabled" not in element["states"] and ("file" in element["states"] or element["role"] == "button")


def check_kinds(kinds: Sequence[str]) -> tuple[str, ...]:
    """Return the kinds as a tuple, with groups (`GROUPS`) expanded.

    Raises:
        ValueError: a kind is unknown, or none is given.
    """
    unknown = [kind for kind in kinds if kind not in KINDS and kind not in GROUPS]
    if unknown or not kinds:
        groups = ", ".join(GROUPS)
        raise ValueError(f"Unknown actions {unknown}: choose from {', '.join(KINDS)}, or the groups {groups}.")
    return tuple(dict.fromkeys(one for kind in kinds for one in GROUPS.get(kind, (kind,))))


def offered(kinds: Sequence[str], elements: Sequence[Element]) -> tuple[str, ...]:
    """Return the kinds that are possible on a page with these elements; only `wait` if none is."""
    fields = any(map(is_editable, elements))
    selects = any(element["tag"] == "select" for element in elements)
    need = {
        "click": bool(elements), "hover": bool(elements), "fill": fields, "type": fields, "select": selects,
        "drag": len(elements) > 1, "upload": any(map(takes_files, elements)),
    }  # fmt: skip
    return tuple(kind for kind in kinds if need.get(kind, True)) or ("wait",)


def label(element: Element) -> str:
    """Return the element's label in a reply: its name, or its role if the name is empty, unprintable or too long."""
    name = element["name"]
    return name if name and name.isprintable() and len(name) <= MOST_LABEL else element["role"]


def forms(
    kinds: Sequence[str],
    elements: Sequence[Element],
    *,
    tabs: Sequence[Tab] = (),
    files: Sequence[str] = (),
    labels: Labels = False,
    said: Sequence[str] = (),
) -> list[dict[str, Value]]:
    """Return the compact JSON forms of the actions that a page allows, as argument names with their possible values.

    Args:
        kinds: the kinds of actions to offer.
        elements: the elements that may be acted on.
        tabs: all open tabs; inactive tabs can be focused.
        files: names of the files that may be uploaded.
        labels: which labels a reply contains: the element's at the start, as `on`, and a field's before its text or
            option, as `in`.
        said: the only texts that can be filled in or typed; any text if empty.
    """
    others = [number for number, tab in enumerate(tabs) if not tab["active"]]
    found: list[dict[str, Value]] = []
    for kind in offered(check_kinds(kinds), elements):
        if kind in ("click", "hover"):
            found += _named(kind, elements) if labels is True else [{kind: _ids(elements)}]
        elif kind in ("fill", "type"):
            fields: list[Element] = [*filter(is_editable, elements)]
            text: Value = said or (Text.VALUE if kind == "fill" else Text.SOME)
            if labels:
                found += [{**_in(kind, one, labels), "text": text} for one in fields]
            else:
                found.append({kind: _ids(fields), "text": text})
        elif kind == "select":
            lists = [one for one in elements if one["tag"] == "select"]
            found += [{**_in(kind, one, labels), "option": _options(one)} for one in lists]
        elif kind == "drag":
            found.append({kind: _ids(elements), "to": _ids(elements)})
        elif kind == "upload":
            found += [{kind: _ids(filter(takes_files, elements)), "file": list(files)}] * bool(files)
        elif kind == "focus_tab":
            found += [{kind: others}] * bool(others)
        else:
            found.append({kind: WITHOUT_ELEMENT[kind]})
    return found or [{"wait": WITHOUT_ELEMENT["wait"]}]


def _in(kind: str, field: Element, labels: Labels) -> dict[str, Value]:
    named, form = [label(field)], {kind: _ids([field])}
    return {**({"on": named} if labels is True else {}), **form, **({"in": named} if labels else {})}


def _named(kind: str, elements: Iterable[Element]) -> list[dict[str, Value]]:
    """Return one form for each label: the label, then the possible ids of its elements."""
    found: dict[str, list[Element]] = {}
    for element in elements:
        found.setdefault(label(element), []).append(element)
    return [{"on": [named], kind: _ids(alike)} for named, alike in found.items()]


def _ids(elements: Iterable[Element]) -> list[int]:
    return sorted({element["id"] for element in elements})


def _options(element: Element) -> list[str] | Text:
    """Return the printable option labels of a `<select>`, each once; any text if there are none."""
    labels = dict.fromkeys(element.get("options", ()))
    return [label for label in labels if label and label.isprintable()] or Text.ANY
