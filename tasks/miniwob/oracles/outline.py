"""The outline of an observation, line by line: for oracles that need to know which text stands beside an element."""

from __future__ import annotations

import re
from typing import NamedTuple

from browser_env.observation import Observation

_LINE = re.compile(r"( *)(?:\[(\d+)\] )?(.*)")


class Line(NamedTuple):
    """A line of the outline: an element, which has an id, or anything else."""

    depth: int
    id: int | None
    text: str


def outline(obs: Observation) -> list[Line]:
    """Return the lines of the outline, without the goal, which MiniWoB++ repeats above the page."""
    lines = []
    for row in obs["dom"].splitlines():
        match = _LINE.fullmatch(row)
        assert match is not None
        indent, id, text = match.groups()
        lines.append(Line(len(indent) // 2, int(id) if id else None, text))
    return lines[1:] if lines and lines[0].text == obs["goal"] else lines


def texts(obs: Observation) -> list[str]:
    """Return the lines of static text."""
    return [line.text for line in outline(obs) if line.id is None]
