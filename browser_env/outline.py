"""The outline (`obs["dom"]`), the page as indented text: formatting, parsing and fitting to a budget.

An element's line is `[12] checkbox "Fast" value="..." checked`; every other line is text, or a container that holds the
lines indented below it. Text that could be mistaken for another kind of line is in quotes, `text "[99] button"`, and so
is text with hidden characters, which are escaped in quotes (`page/written.js`). So no page can forge the line of an
element or a container.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from selfsurf.browser_env.observation import Element
from selfsurf.browser_env.text import visible

Line = tuple[int, str, float]
"""A line to render: depth, text, and distance from the viewport in CSS pixels (0 inside it)."""

_ATTEMPTS = 5
"""Attempts to meet a budget exactly before lines are dropped by halves."""

_encode = json.JSONEncoder(ensure_ascii=False).encode

ELEMENT = re.compile(r" *\[(0|[1-9][0-9]{0,15})\] ")
"""Pattern of the beginning of an element's line, which no other line matches."""

_QUOTED = r'"(?!")[^"\\\x00-\x1f]*(?:\\(?:["\\bfnrt]|u[0-9a-f]{4})[^"\\\x00-\x1f]*)*"'
"""Pattern of a text as written by `quote`; `OutlineLine.element` checks that `quote` wrote it."""
_PARTS = re.compile(rf"(\S+)(?: ({_QUOTED}))?(?: value=({_QUOTED}))?(?: (.+))?", re.DOTALL)

_TEXT = re.compile(rf"text ({_QUOTED})(?: \(\d+ characters, cut\))?")


def quote(text: str) -> str:
    """Return a name or a value in double quotes, as JSON, with hidden characters escaped."""
    return visible(_encode(text))


class ElementText(NamedTuple):
    """The part of an element's line after the id: `role "name" value="..." states`."""

    role: str
    name: str = ""
    value: str = ""
    states: str = ""
    """States, separated by spaces; a state may contain spaces itself."""

    def __str__(self) -> str:
        text = f"{self.role} {quote(self.name)}" if self.name else self.role
        if self.value:
            text += f" value={quote(self.value)}"
        return f"{text} {self.states}" if self.states else text


class OutlineLine(NamedTuple):
    """A line of an outline. `str(parse_line(row)) == row` for any text."""

    indent: int
    """Number of spaces before the line, two per level."""
    id: int | None
    """Id of the line's element; None for a line without an element."""
    text: str
    """Text of the line without indentation and id."""

    @property
    def element(self) -> ElementText | None:
        """Parsed text of the line's element; None for other lines, even if they look like an element's."""
        found = None if self.id is None else _PARTS.fullmatch(self.text)
        if found is None:
            return None
        role, name, value, states = found.groups("")
        element = ElementText(role, name and _unquote(name), value and _unquote(value), states)
        return element if "\\u" not in self.text or str(element) == self.text else None

    @property
    def words(self) -> str:
        """The page's own words in a line of text, without the quotes that the outline may add."""
        found = None if self.id is not None else _TEXT.fullmatch(self.text)
        return self.text if found is None else _unquote(found[1])

    def __str__(self) -> str:
        return " " * self.indent + (self.text if self.id is None else f"[{self.id}] {self.text}")


def element_line(element: Element) -> str:
    """Return an element's line: `[id] role "name" value="..." states`."""
    text = ElementText(element["role"], element["name"], element["value"], " ".join(element["states"]))
    return f"[{element['id']}] {text}"


def parse_line(row: str) -> OutlineLine:
    """Parse one line of an outline."""
    found = ELEMENT.match(row)
    if found is None:
        text = row.lstrip(" ")
        return OutlineLine(len(row) - len(text), None, text)
    return OutlineLine(found.start(1) - 1, int(found[1]), row[found.end() :])


def parse_outline(dom: str) -> list[OutlineLine]:
    """Parse an outline into its lines."""
    return [parse_line(row) for row in dom.split("\n")]


def indent_of(row: str) -> int:
    """Return the number of spaces at the beginning of a line."""
    return len(row) - len(row.lstrip(" "))


def without_focus(dom: str, *, ids: bool = True) -> str:
    """Return an outline without the state `focused`, with or without element ids."""
    return "\n".join(str(line if ids else line._replace(id=None)) for line in _focused_lines(dom, None))


def with_focus(dom: str, id: int | None) -> str:
    """Return an outline in which the element `id` is focused, or no element if `id` is None."""
    return "\n".join(map(str, _focused_lines(dom, id)))


def _focused_lines(dom: str, id: int | None) -> Iterator[OutlineLine]:
    for line in parse_outline(dom):
        if element := line.element:
            states = focused_states(element.states.split(" "), line.id == id)
            line = line._replace(text=str(element._replace(states=" ".join(states))))
        yield line


def focused_states(states: Iterable[str], focused: bool) -> list[str]:
    """Return an element's states with `focused` added or removed."""
    return [*(state for state in states if state not in ("focused", "")), *["focused"] * focused]


def _unquote(text: str) -> str:
    """Return the original of a text quoted by `quote`."""
    return str(json.loads(text)) if "\\" in text else text[1:-1]


def render(lines: Sequence[Line], budget: int | None = None, count: Callable[[str], int] = len) -> str:
    """Join outline lines, two spaces per level, within a budget.

    Args:
        lines: in document order.
        budget: the maximum size of the result, by `count`; None for no limit. Lines farthest from the viewport are
            dropped first, later ones before earlier ones at the same distance; a line stays as long as any line below
            it in the hierarchy. The last line then says how much was dropped, where, and how far away it is.
        count: measures a text: characters by default, or a tokenizer's count. It is called once for each line that
            may fit, and a few times for the whole.
    """
    rows = ["  " * depth + text for depth, text, _ in lines]
    if budget is None:
        return "\n".join(rows)
    distances = _nearest_in_subtree(lines)
    order = sorted(range(len(rows)), key=distances.__getitem__)
    sums = [0]  # sizes of the nearest n lines, each measured on its own
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
    """Return for each line the least distance among the line and the lines below it in the hierarchy."""
    distances = [distance for _, _, distance in lines]
    waiting: list[float] = []  # by depth: least distance of later lines whose parent is yet to be visited
    for index in range(len(lines) - 1, -1, -1):
        depth = lines[index][0]
        distances[index] = min([distances[index], *waiting[depth + 1 :]])
        del waiting[depth + 1 :]
        waiting.extend([math.inf] * (depth + 1 - len(waiting)))
        waiting[depth] = min(waiting[depth], distances[index])
    return distances


def _cut(lines: Sequence[Line], rows: list[str], order: list[int], distances: list[float], kept: int) -> str:
    """Return the nearest `kept` lines in document order, and a note about the others."""
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
    """Return the number of lines and elements in texts, such as `41 lines (12 elements)`."""
    elements = [ELEMENT.match(text) is not None for text in texts]
    number = sum(elements)
    inside = f" ({number} element{'s' * (number != 1)})" if number else ""
    return f"{len(elements)} line{'s' * (len(elements) != 1)}{inside}"
