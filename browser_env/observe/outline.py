"""The outline (`obs["dom"]`): the page as indented text, cut to a budget from what is farthest away."""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence

from selfsurf.browser_env.observation import Element

Line = tuple[int, str, float]
"""Depth, text, and distance from the viewport in CSS pixels (0 inside it)."""

_ELEMENT = re.compile(r"\[\d+\] ")

_ATTEMPTS = 5
"""Whole texts that are measured to meet a budget before lines are dropped by halves."""


def element_line(element: Element) -> str:
    """Return an element as `[id] role "name" value="..." states`."""
    parts = [f"[{element['id']}] {element['role']}"]
    if element["name"]:
        parts.append(json.dumps(element["name"], ensure_ascii=False))
    if element["value"]:
        parts.append(f"value={json.dumps(element['value'], ensure_ascii=False)}")
    parts.extend(element["states"])
    return " ".join(parts)


def render(lines: Sequence[Line], budget: int | None = None, count: Callable[[str], int] = len) -> str:
    """Join outline lines, two blanks a level, within a budget.

    Args:
        lines: in document order.
        budget: the most that the result may measure, by `count`; None for no limit. What is farthest from the
            viewport is dropped first, of equals what comes last; a line stays as long as anything below it in the
            hierarchy. The last line then says how much was dropped, where it is and how far.
        count: how a text is measured: characters by default, or a tokenizer's count. It is asked once about each
            line that may fit, and a few times about the whole.
    """
    rows = ["  " * depth + text for depth, text, _ in lines]
    if budget is None:
        return "\n".join(rows)
    distances = _nearest_in_subtree(lines)
    order = sorted(range(len(rows)), key=distances.__getitem__)
    sums = [0]  # what the nearest n lines measure, each on its own
    while len(sums) <= len(rows) and sums[-1] <= budget * 1.25 + 100:
        sums.append(sums[-1] + count(rows[order[len(sums) - 1]] + "\n"))
    if len(sums) > len(rows) and count(whole := "\n".join(rows)) <= budget:
        return whole

    best = -1
    allowance = budget + 1  # the last line ends without a line break
    for _ in range(_ATTEMPTS):
        kept = bisect_right(sums, allowance) - 1
        if kept in (best, -1):
            break
        over = count(_cut(lines, rows, order, distances, kept)) - budget
        if over <= 0:
            best = max(best, kept)
            allowance -= over
        else:
            allowance = min(allowance - over, sums[kept] - 1)
    kept = len(sums) - 1
    while best < 0 and kept > 0:
        kept //= 2
        best = kept if count(_cut(lines, rows, order, distances, kept)) <= budget else -1
    if best >= 0:
        return _cut(lines, rows, order, distances, best)
    short = (f"... {len(rows)} lines left out", "...", "")
    return next(text for text in short if count(text) <= budget or not text)


def _nearest_in_subtree(lines: Sequence[Line]) -> list[float]:
    """Return the distance of every line, or of the nearest line below it in the hierarchy where that is nearer."""
    distances = [distance for _, _, distance in lines]
    waiting: list[float] = []  # by depth, the nearest of the lines further down whose parent is still to come
    for index in range(len(lines) - 1, -1, -1):
        depth = lines[index][0]
        distances[index] = min([distances[index], *waiting[depth + 1 :]])
        del waiting[depth + 1 :]
        waiting.extend([math.inf] * (depth + 1 - len(waiting)))
        waiting[depth] = min(waiting[depth], distances[index])
    return distances


def _cut(lines: Sequence[Line], rows: list[str], order: list[int], distances: list[float], kept: int) -> str:
    """Return the nearest `kept` lines in document order, and a line about the others."""
    if kept == len(rows):
        return "\n".join(rows)
    dropped = order[kept:]
    above = [index for index in dropped if index < order[0]]
    below = [index for index in dropped if index >= order[0]]
    parts = [
        f"{_amount(lines[index][1] for index in indices)} {where}"
        for indices, where in ((above, "above"), (below, "below"))
        if indices
    ]
    distance = distances[dropped[0]]
    how_far = f"{distance:.0f} px away or farther" if distance >= 1 else "some of it in view"
    note = f"... left out, {how_far}: {', '.join(parts)}"
    return "\n".join([*(rows[index] for index in sorted(order[:kept])), note])


def _amount(texts: Iterable[str]) -> str:
    """Return `41 lines (12 elements)`."""
    elements = [_ELEMENT.match(text) is not None for text in texts]
    number = sum(elements)
    inside = f" ({number} element{'s' * (number != 1)})" if number else ""
    return f"{len(elements)} line{'s' * (len(elements) != 1)}{inside}"
