"""Search for the target element of a recorded action on the current page, by comparing element descriptions.

IDs may differ between runs, so two elements match if role and name are equal.
"""

from __future__ import annotations

from collections.abc import Sequence

from selfsurf.browser_env.actions import Action
from selfsurf.browser_env.observation import Element

_ELEMENT = ("id", "from_", "to")


def matching(action: Action, then: Sequence[Element], now: Sequence[Element]) -> tuple[Action, str, str]:
    """Return an action with current element IDs, the weakest kind of match, and an error for a missing element.

    Elements match if role and name are equal. Among several matches the same ID decides, then the position.
    """
    changes: dict[str, int] = {}
    ways: list[str] = []
    for key in _ELEMENT:
        id = getattr(action, key, None)
        if not isinstance(id, int):
            continue
        old = next((element for element in then if element["id"] == id), None)
        if old is None:
            return action, "", f"The episode does not say what element {id} was."
        new, way = _same(old, then, now)
        if new is None:
            return action, "", f"There is no {old['role']} named {old['name']!r} here."
        changes[key] = new["id"]
        ways.append(way)
    worst = next((way for way in ("position", "name", "id") if way in ways), "")
    return action.model_copy(update=changes), worst, ""


def _same(old: Element, then: Sequence[Element], now: Sequence[Element]) -> tuple[Element | None, str]:
    alike = [element for element in now if _kind(element) == _kind(old)]
    if not alike:
        return None, ""
    for element in alike:
        if element["id"] == old["id"]:
            return element, "id"
    if len(alike) == 1:
        return alike[0], "name"
    before = sorted((element for element in then if _kind(element) == _kind(old)), key=_place)
    alike.sort(key=_place)
    if len(before) == len(alike):
        return alike[[element["id"] for element in before].index(old["id"])], "position"
    top, left = _place(old)
    return min(alike, key=lambda element: abs(element["bbox"][1] - top) + abs(element["bbox"][0] - left)), "position"


def _kind(element: Element) -> tuple[str, str]:
    return element["role"], element["name"]


def _place(element: Element) -> tuple[float, float]:
    return element["bbox"][1], element["bbox"][0]
