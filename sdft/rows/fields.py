"""A form whose fields stand in another order, and are still filled in from top to bottom.

Were the fields themselves moved, and filled in as they were recorded, nobody could tell from the page which is next. So
what they are about changes places: labels, and what was typed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from selfsurf.browser_env.observe.outline import parse_line
from selfsurf.sdft.teacher.recording import Recording, Shown


class Field(NamedTuple):
    """What a field is about."""

    role: str
    label: str
    typed: str


def exchanged(recording: Recording, rng: np.random.Generator) -> Recording:
    """Return a recording where fields of one role that are filled in on one page have changed places.

    Args:
        recording: whole, from disk.
        rng: what is drawn from.
    """
    pages: dict[frozenset[int], dict[int, Field]] = defaultdict(dict)
    times = Counter(getattr(shown.action, "id", None) for shown in recording.steps)
    for shown in recording.steps:
        action: Any = shown.action
        elements = {one["id"]: one for one in shown.observation["elements"]}
        if action.name == "fill" and times[action.id] == 1 and action.id in elements:
            pages[frozenset(elements)][action.id] = Field(
                elements[action.id]["role"], elements[action.id]["name"], action.text
            )
    was: dict[int, Field] = {}
    now: dict[int, Field] = {}
    for page in pages.values():
        fields = {id: one for id, one in page.items() if _holds_what_was_typed(recording, id, one.typed)}
        was |= fields
        for role in dict.fromkeys(one.role for one in fields.values()):
            alike = [id for id, one in fields.items() if one.role == role]
            now |= {id: fields[alike[place]] for id, place in zip(alike, rng.permutation(len(alike)), strict=True)}
    return replace(recording, steps=tuple(_shown(one, was, now) for one in recording.steps))


def _holds_what_was_typed(recording: Recording, id: int, typed: str) -> bool:
    """Is nothing else ever in a field, such as a number as the page writes it, or a password's bullets?"""
    seen = (one for shown in recording.steps for one in shown.observation["elements"] if one["id"] == id)
    return all(one["value"] in ("", typed) for one in seen)


def _shown(shown: Shown, was: Mapping[int, Field], now: Mapping[int, Field]) -> Shown:
    def value(id: int, held: str) -> str:
        return now[id].typed if held == was[id].typed else held

    def line(row: str) -> str:
        parsed = parse_line(row)
        element = parsed.element
        if parsed.id is None or parsed.id not in now or element is None:
            return row
        said = element._replace(name=now[parsed.id].label, value=value(parsed.id, element.value))
        return str(parsed._replace(text=str(said)))

    seen = shown.observation
    action: Any = shown.action
    elements = [
        {**one, "name": now[one["id"]].label, "value": value(one["id"], one["value"])} if one["id"] in now else one
        for one in seen["elements"]
    ]
    if action.name == "fill" and action.id in now:
        action = action.model_copy(update={"text": now[action.id].typed})
    return Shown({**seen, "dom": "\n".join(map(line, seen["dom"].split("\n"))), "elements": elements}, action)
