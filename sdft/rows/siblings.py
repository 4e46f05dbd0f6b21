"""What might have been chosen instead: options and elements beside a chosen one, whose names trade places with its.

Where only the chosen one has another name each time, a student learns to choose the odd one, not what the goal says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from selfsurf.browser_env.goal.words import bounded
from selfsurf.sdft.teacher.recording import Recording, Shown

TRADED = 0.5
"""How often a chosen one trades places, if there are others."""

RENAMED = 0.5
"""How often else all of them have other names, or the one that is new would be the one to choose."""

NEAREST = 4
"""Elements that count as standing beside one: those of its role that are the fewest places away."""


def other_choices(
    recording: Recording, texts: Sequence[str], rng: np.random.Generator
) -> tuple[dict[str, str], list[str]]:
    """Return names that take each other's places, in both directions, and names that are to be others.

    Args:
        recording: its observations are whole.
        texts: what was typed, chosen or clicked that stands in the goal.
        rng: what is drawn from.
    """
    touched = {chosen for shown in recording.steps for chosen, _ in _choices(shown)}
    found: dict[str, str] = {}
    renamed: list[str] = []
    for shown in recording.steps:
        for chosen, others in _choices(shown):
            if chosen not in texts or chosen in found:
                continue
            known = [text for text in (*texts, *touched, *found, recording.goal) if text != chosen]
            free = [one for one in dict.fromkeys(others) if not any(_overlap(one, text) for text in (chosen, *known))]
            if not free or any(_overlap(chosen, text) for text in known if text != recording.goal):
                continue
            if rng.random() < TRADED:
                other = free[int(rng.integers(len(free)))]
                found |= {chosen: other, other: chosen}
            elif rng.random() < RENAMED:
                renamed += free
    return found, [name for name in dict.fromkeys(renamed) if name not in found]


def choosable(shown: Shown) -> list[str]:
    """Return the names of all that might have been chosen at a step."""
    return [name for chosen, others in _choices(shown, most=None) for name in (chosen, *others)]


def _choices(shown: Shown, most: int | None = NEAREST) -> Iterator[tuple[str, list[str]]]:
    """What an action chose, and what it might have chosen."""
    action: Any = shown.action
    elements = {one["id"]: one for one in shown.observation["elements"]}
    element = elements.get(getattr(action, "id", None))
    if element is None:
        return
    if action.name == "select":
        for option in action.options:
            yield option, [one for one in element.get("options", ()) if one != option]
    elif action.name == "click":
        order = [*elements]
        alike = [one for one in order if elements[one]["role"] == element["role"] and one != action.id]
        alike.sort(key=lambda one: abs(order.index(one) - order.index(action.id)))
        yield element["name"], [elements[one]["name"] for one in alike[:most]]


def _overlap(text: str, other: str) -> bool:
    """Does one of them stand in the other?"""
    if not text.strip() or not other.strip():
        return not text.strip()
    return bool(re.search(bounded(text), other) or re.search(bounded(other), text))
