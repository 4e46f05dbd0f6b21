"""Reordering of a form's fields, which are still filled in from top to bottom.

If the fields themselves were moved and filled in as recorded, the page wouldn't show which is next. Instead, their
contents are exchanged: labels and typed texts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from selfsurf.browser_env.outline import parse_line
from selfsurf.sdft.teacher.recording import RecordedStep, Recording


class Field(NamedTuple):
    """Exchangeable contents of a field."""

    role: str
    label: str
    typed: str


def exchanged(recording: Recording, rng: np.random.Generator) -> Recording:
    """Return a recording in which the filled fields of each role and page have exchanged their contents.

    Args:
        recording: a complete recording from disk.
        rng: random generator.
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
    """Whether a field only ever contains the typed text, rather than a reformatted number or a password's bullets."""
    seen = (one for shown in recording.steps for one in shown.observation["elements"] if one["id"] == id)
    return all(one["value"] in ("", typed) for one in seen)


def _shown(shown: RecordedStep, was: Mapping[int, Field], now: Mapping[int, Field]) -> RecordedStep:
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
    return RecordedStep({**seen, "dom": "\n".join(map(line, seen["dom"].split("\n"))), "elements": elements}, action)
