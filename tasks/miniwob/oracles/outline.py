"""The outline of an observation, line by line: for oracles that need to know which text stands beside an element."""

from __future__ import annotations

import re
from typing import NamedTuple

from selfsurf.browser_env.observation import Observation

_LINE = re.compile(r"( *)(?:\[(\d+)\] )?(.*)")


class Line(NamedTuple):
    """A line of the outline: an element if it has an id, else text or what holds others."""

    id: int | None
    text: str


def outline(obs: Observation) -> list[Line]:
    """Return the lines of the outline, without the goal, which MiniWoB++ repeats above the page."""
    lines = []
    for row in obs["dom"].splitlines():
        match = _LINE.fullmatch(row)
        if match is not None:
            lines.append(Line(int(match[2]) if match[2] else None, match[3]))
    return [line for line in lines if line.text != obs["goal"]]
