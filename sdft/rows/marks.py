"""The initially marked member of each choice, such as the option that a select shows, redrawn at random.

As recorded, it would always be a member that is not to be chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from selfsurf.browser_env.outline import OutlineLine, parse_outline
from selfsurf.sdft.rows.choices import Choice
from selfsurf.sdft.teacher.recording import RecordedStep, Recording

_MARKS = ("checked", "selected")


def marked_anywhere(recording: Recording, choices: Sequence[Choice], rng: np.random.Generator) -> Recording:
    """Return a recording in which each choice with an initially marked member marks a random one.

    Args:
        recording: a recording with complete observations.
        choices: choices of the recording.
        rng: random generator.
    """
    steps = [*recording.steps]
    for choice in choices:
        drawn = int(rng.integers(len(choice.names)))
        for at, shown in enumerate(steps[: choice.step + 1]):
            mark = _radio if choice.ids else _option
            steps[at] = RecordedStep(mark(shown.observation, choice, drawn, steps[choice.step]), shown.action)
    return replace(recording, steps=tuple(steps))


def _radio(seen: Mapping[str, Any], choice: Choice, drawn: int, _: RecordedStep) -> Mapping[str, Any]:
    marked = {one["id"]: mark for one in seen["elements"] for mark in _MARKS if mark in one["states"]}
    marked = {id: mark for id, mark in marked.items() if id in choice.ids}
    to = choice.ids[drawn]
    if len(marked) != 1 or to in marked or to not in {one["id"] for one in seen["elements"]}:
        return seen
    ((was, mark),) = marked.items()

    def states(id: int | None, held: Sequence[str]) -> list[str]:
        return [*held, mark] if id == to else [one for one in held if one != mark] if id == was else [*held]

    def line(one: OutlineLine) -> OutlineLine:
        if one.id not in (was, to) or (said := one.element) is None:
            return one
        return one._replace(text=str(said._replace(states=" ".join(states(one.id, said.states.split())))))

    elements = [{**one, "states": tuple(states(one["id"], one["states"]))} for one in seen["elements"]]
    return {**seen, "elements": elements, "dom": "\n".join(str(line(one)) for one in parse_outline(seen["dom"]))}


def _option(seen: Mapping[str, Any], choice: Choice, drawn: int, chosen: RecordedStep) -> Mapping[str, Any]:
    id: int = chosen.action.id  # type: ignore[union-attr,assignment]
    first = next(one["value"] for one in chosen.observation["elements"] if one["id"] == id)
    field = next((one for one in seen["elements"] if one["id"] == id), None)
    new = choice.names[drawn]
    if field is None or field["value"] != first or first not in choice.names:
        return seen
    lines, within = [], False
    for one in parse_outline(seen["dom"]):
        within = one.id == id or (within and one.id is None and one.text.startswith("option"))
        said = one.element if one.id == id else one._replace(id=0).element if within else None
        if said is None:
            lines.append(one)
        elif one.id == id:
            lines.append(one._replace(text=str(said._replace(value=new))))
        else:
            held = [state for state in said.states.split() if state != "selected"]
            states = [*held, *["selected"] * (said.name == new)]
            lines.append(one._replace(text=str(said._replace(states=" ".join(states)))))
    elements = [{**one, "value": new} if one["id"] == id else one for one in seen["elements"]]
    return {**seen, "elements": elements, "dom": "\n".join(map(str, lines))}
