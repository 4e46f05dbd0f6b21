"""The outline (`obs["dom"]`): the page as indented text, cut to a budget from what is farthest away."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from browser_env.observation import Element

Line = tuple[int, str, float]
"""Depth, text, and distance from the viewport in CSS pixels (0 inside it)."""


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
            viewport is dropped first, of equals what comes last; the last line then says how much.
        count: how a text is measured: characters by default, or a tokenizer's count.
    """
    rows = ["  " * depth + text for depth, text, _ in lines]
    whole = "\n".join(rows)
    if budget is None or count(whole) <= budget:
        return whole
    order = sorted(range(len(rows)), key=lambda i: (lines[i][2], i))
    low, high = 0, len(rows)
    while low < high:  # the most lines that fit
        middle = (low + high + 1) // 2
        if count(_kept(rows, order[:middle])) <= budget:
            low = middle
        else:
            high = middle - 1
    return _kept(rows, order[:low])


def _kept(rows: list[str], keep: list[int]) -> str:
    left_out = len(rows) - len(keep)
    note = [f"... {left_out} more lines, farther from the viewport, left out"] if left_out else []
    return "\n".join([rows[i] for i in sorted(keep)] + note)
