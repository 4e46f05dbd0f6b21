"""Oracles of tasks with sliders, whose value is shown next to them as text."""

from __future__ import annotations

import re

from selfsurf.browser_env import Action, Drag, Element, Observation, Press
from selfsurf.tasks.miniwob.oracles.base import Notes, elements, line_near, oracle, submit

FINE = 3
"""Distance in pixels up to which an arrow key, which moves by one, is used instead of inexact dragging."""


@oracle("use-slider")
def use_slider(obs: Observation, notes: Notes) -> Action | None:
    """Set the slider, then submit."""
    wanted = [int(number) for number in re.findall(r"Select (-?\d+) with", obs["goal"])]
    done = f"The slider is at {wanted[0]}, so Submit comes next."
    return set_slider(obs, notes, wanted) or submit(obs, done)


@oracle("use-slider-2")
def use_slider_2(obs: Observation, notes: Notes) -> Action | None:
    """Set the sliders, then submit."""
    wanted = [int(number) for number in re.findall(r"-?\d+", obs["goal"])]
    done = f"The sliders are at {wanted}, so Submit comes next."
    return set_slider(obs, notes, wanted) or submit(obs, done)


def set_slider(obs: Observation, notes: Notes, wanted: list[int]) -> Action | None:
    """Return the next action towards the sliders' target values; None once they are reached.

    Two positions of a handle with their values give the scale, which all sliders of a page share and by which handles
    are dragged. If only one position is known, the key End or Home reveals another.
    """
    sliders = [(handle, number) for handle in elements(obs, "generic") if (number := _value(obs, handle)) is not None]
    for handle, number in sliders:
        notes.setdefault(f"slider {handle['id']}", {})[number] = middle(handle)
    for (handle, number), target in zip(sliders, wanted, strict=False):
        if number == target:
            continue
        at = f"The slider is at {number} and must be at {target}"
        scale = next((scale for seen in notes.values() if (scale := scale_of(seen))), None)
        off = abs(number - target)
        if off * max(map(abs, scale)) <= FINE if scale else off <= 2:
            key = "ArrowRight" if target > number else "ArrowLeft"
            return Press(id=handle["id"], key=key, reason=f"{at}, and {key} moves it by one.")
        if not scale:
            key = "End" if target > number else "Home"
            return Press(id=handle["id"], key=key, reason=f"{at}; where {key} takes it tells how far a pixel goes.")
        (x, y), (dx, dy) = middle(handle), scale
        to = (round(x + (target - number) * dx, 1), round(y + (target - number) * dy, 1))
        reason = f"{at}, which is at {to[0]:g}, {to[1]:g} by what was seen of it."
        return Drag.model_validate({"from": handle["id"], "to": to, "reason": reason})
    return None


def scale_of(seen: dict[int, tuple[float, float]]) -> tuple[float, float] | None:
    """Return how many pixels a handle moves right and down per increase of its value by one; None if unknown."""
    low, high = min(seen), max(seen)
    if low == high:
        return None
    (x0, y0), (x1, y1) = seen[low], seen[high]
    return (x1 - x0) / (high - low), (y1 - y0) / (high - low)


def _value(obs: Observation, handle: Element) -> int | None:
    """Return the number in the line after a handle's line; None if the line is not a number."""
    line = line_near(obs, handle, 1)
    return int(line) if re.fullmatch(r"-?\d+", line) else None


def middle(element: Element) -> tuple[float, float]:
    """Return the center of an element."""
    x, y, width, height = element["bbox"]
    return x + width / 2, y + height / 2
