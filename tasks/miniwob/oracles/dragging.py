"""Oracles of tasks that drag boxes and list items onto each other or into order."""

from __future__ import annotations

import re

from selfsurf.browser_env import Action, Drag, Element, Observation
from selfsurf.tasks.miniwob.oracles.base import elements, oracle, submit

_PLACES = {
    "top left": 0, "top center": 1, "top right": 2, "center left": 3, "center": 4, "center right": 5,
    "bottom left": 6, "bottom center": 7, "bottom right": 8,
}  # fmt: skip
_GRID_MOVES = {"up by one": -3, "down by one": 3, "left by one": -1, "right by one": 1}
_LIST_MOVES = {"up by one position": -1, "down by one position": 1}


def drag_onto(source: Element, target: Element, reason: str) -> Action:
    """Drag one element onto another."""
    return Drag.model_validate({"from": source["id"], "to": target["id"], "reason": reason})


def by_place(obs: Observation) -> list[Element]:
    """Return the list's items in their present order, row by row, because a dragged item keeps its ID."""
    return sorted(elements(obs, "listitem"), key=lambda item: (round(item["bbox"][1]), item["bbox"][0]))


@oracle("drag-box")
def drag_box(obs: Observation) -> Action | None:
    """Drag the small box onto the large one, then submit."""
    small, large = elements(obs, "generic", "s"), elements(obs, "generic", "L")
    if not small or not large:
        return None
    x, y, width, height = small[0]["bbox"]
    left, top, outer_width, outer_height = large[0]["bbox"]
    if left < x < left + outer_width - width and top < y < top + outer_height - height:
        return submit(obs, "The small box is inside the large one, so Submit comes next.")
    return drag_onto(small[0], large[0], 'The small box "s" must be inside the large box "L".')


@oracle("drag-items")
def drag_items(obs: Observation) -> Action | None:
    """Drag the named item to its position in the list."""
    items = by_place(obs)
    at, where = named_item(obs, items)
    number = re.match(r"\d+", where)
    ends = {"top": 0, "bottom": len(items) - 1}
    return drag_to_place(
        items, at, int(number.group()) - 1 if number else ends.get(where, at + _LIST_MOVES.get(where, 0))
    )


@oracle("drag-items-grid")
def drag_items_grid(obs: Observation) -> Action | None:
    """Drag the named item to its place in the grid of three rows."""
    items = by_place(obs)
    at, where = named_item(obs, items)
    return drag_to_place(items, at, _PLACES.get(where, at + _GRID_MOVES.get(where, 0)))


def named_item(obs: Observation, items: list[Element]) -> tuple[int, str]:
    """Return the index of the item that the goal names (-1 if missing), and its target position."""
    match = re.match(r"Drag (\S+) (?:to the )?(.+)\.$", obs["goal"])
    name, where = match.groups() if match else ("", "")
    return next((place for place, item in enumerate(items) if item["name"] == name), -1), where


def drag_to_place(items: list[Element], at: int, target: int) -> Action | None:
    """Drag an item over the middle of the item at its target position, which then moves aside."""
    if at < 0 or not 0 <= target < len(items) or at == target:
        return None
    reason = (
        f"{items[at]['name']} is number {at + 1} and must be number {target + 1}, where {items[target]['name']} is."
    )
    x, y, width, height = items[target]["bbox"]
    forward = 1 if target > at else -1
    if items[0]["bbox"][1] == items[1]["bbox"][1]:  # side by side
        before, after = ((x + width * (0.5 + 0.3 * side), y + height / 2) for side in (-forward, forward))
        return Drag.model_validate({"from": items[at]["id"], "via": [before], "to": after, "reason": reason})
    to = (x + width / 2, y + height * (0.5 + 0.3 * forward))
    return Drag.model_validate({"from": items[at]["id"], "to": to, "reason": reason})


@oracle("drag-sort-numbers")
def drag_sort_numbers(obs: Observation) -> Action | None:
    """Move the smallest number that is out of place, or submit if there is none."""
    items = by_place(obs)
    numbers = [int(item["name"]) for item in items]
    for place, number in enumerate(sorted(numbers)):
        if numbers[place] != number:
            at = numbers.index(number, place)
            reason = f"{number} is the smallest number from position {place + 1} on, so it belongs there."
            return drag_onto(items[at], items[place], reason)
    return submit(obs, f"{', '.join(map(str, numbers))} are in order, so Submit is next.")
