"""An element's place on its page: landmarks, heading and surrounding texts, computed from the outline alone.

Ids, classes, coordinates and tags are ignored, so that a new layout changes nothing.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from selfsurf.browser_env.outline import OutlineLine, parse_outline

LANDMARKS = (
    "navigation", "complementary", "main", "contentinfo", "banner", "form", "region", "search", "dialog", "alertdialog",
)  # fmt: skip
DIALOGS = ("dialog", "alertdialog")

MOST = 12
"""Maximum number of surrounding lines that are compared, the nearest first."""

_HEADING = re.compile(r'heading "(.*)" level=\d+')
_CONTAINER = re.compile(r'([a-z]+)(?: "(.*)")?(?: .*)?')
_WORD = re.compile(r"\w+")


class ElementPlace(BaseModel):
    """The place of an element on its page."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    landmarks: tuple[str, ...] = ()
    """Roles of the landmarks around the element, outermost first."""
    heading: str = ""
    """The nearest heading before the element, in the same landmark or in one around it."""
    around: tuple[str, ...] = ()
    """Other content of the element's container: `role name` of elements, and texts."""

    def likeness(self, other: ElementPlace) -> float:
        """Return the similarity of two places, from 0 to 1."""
        return (
            0.35 * self._landmarks(other)
            + 0.25 * (alike(self.heading, other.heading) >= 0.5)
            + 0.4 * self.company(other)
        )

    def company(self, other: ElementPlace) -> float:
        """Return the share of common surroundings, from 0 to 1; 1 if the place has no surroundings."""
        if not self.around:
            return 1.0
        return _shared(self.around, other.around)

    def _landmarks(self, other: ElementPlace) -> float:
        if self.landmarks == other.landmarks:
            return 1.0
        return 0.5 * (self.landmarks[:1] == other.landmarks[:1])


def places(dom: str) -> dict[int, ElementPlace]:
    """Return the place of each element of an outline, by its id."""
    lines = [line for line in parse_outline(dom) if not line.text.startswith("option ")]
    parents = _parents(lines)
    landmarks = [_landmarks(lines, parents, number) for number in range(len(lines))]
    said = [_said(line) for line in lines]
    found = {}
    for number, line in enumerate(lines):
        if line.id is None or line.element is None:
            continue
        around = _around(lines, parents, said, number)
        found[line.id] = ElementPlace(
            landmarks=landmarks[number], heading=_heading(lines, landmarks, number), around=around
        )
    return found


def dialogs(dom: str) -> dict[int, str]:
    """Return the outline line of the enclosing dialog for each element in a dialog, by element id."""
    lines = parse_outline(dom)
    parents = _parents(lines)
    found = {}
    for number, line in enumerate(lines):
        above = parents[number]
        while line.id is not None and above is not None:
            if _role(lines[above]) in DIALOGS:
                found[line.id] = lines[above].text
                break
            above = parents[above]
    return found


def alike(one: str, other: str) -> float:
    """Return the similarity of two names, from 0 to 1, regardless of case and punctuation."""
    ours, others = _WORD.findall(one.casefold()), _WORD.findall(other.casefold())
    if not ours or not others:
        return float(one.strip() == other.strip())
    if ours == others:
        return 1.0
    few, many = sorted((set(ours), set(others)), key=len)
    if few and few <= many:
        return max(0.5, len(few) / len(many))
    ratio = difflib.SequenceMatcher(None, " ".join(ours), " ".join(others)).ratio()
    return ratio if ratio >= 0.9 else 0.0


def words(name: str) -> set[str]:
    """Return the words of a name in lower case."""
    return set(_WORD.findall(name.casefold()))


def _parents(lines: Sequence[OutlineLine]) -> list[int | None]:
    parents: list[int | None] = []
    open_: list[int] = []
    for number, line in enumerate(lines):
        while open_ and lines[open_[-1]].indent >= line.indent:
            open_.pop()
        parents.append(open_[-1] if open_ else None)
        open_.append(number)
    return parents


def _role(line: OutlineLine) -> str:
    found = _CONTAINER.fullmatch(line.text) if line.id is None else None
    return found[1] if found else ""


def _landmarks(lines: Sequence[OutlineLine], parents: Sequence[int | None], number: int) -> tuple[str, ...]:
    chain, above = [], parents[number]
    while above is not None:
        if _role(lines[above]) in LANDMARKS:
            chain.append(_role(lines[above]))
        above = parents[above]
    return tuple(reversed(chain))


def _heading(lines: Sequence[OutlineLine], landmarks: Sequence[tuple[str, ...]], number: int) -> str:
    own = landmarks[number]
    for before in range(number - 1, -1, -1):
        found = _HEADING.fullmatch(lines[before].text) if lines[before].id is None else None
        if found and own[: len(landmarks[before])] == landmarks[before]:
            return found[1]
    return ""


def _said(line: OutlineLine) -> str:
    """Return the text of an outline line; empty for a container."""
    if line.id is not None:
        element = line.element
        return f"{element.role} {element.name}".strip() if element else ""
    if found := _HEADING.fullmatch(line.text):
        return f"heading {found[1]}"
    found = _CONTAINER.fullmatch(line.text)
    return "" if found and (found[2] is not None or found[0] == found[1]) else line.words


def _around(
    lines: Sequence[OutlineLine], parents: Sequence[int | None], said: Sequence[str], number: int
) -> tuple[str, ...]:
    """Return the other texts of the nearest container that contains more than the element."""
    above: int | None = number
    while above is not None:
        above = parents[above]
        others = [one for one in _below(lines, above) if one != number and said[one]]
        if others:
            return tuple(sorted(said[one] for one in sorted(others, key=lambda one: abs(one - number))[:MOST]))
    return ()


def _below(lines: Sequence[OutlineLine], above: int | None) -> range:
    if above is None:
        return range(len(lines))
    end = above + 1
    while end < len(lines) and lines[end].indent > lines[above].indent:
        end += 1
    return range(above + 1, end)


def _shared(one: Sequence[str], other: Sequence[str]) -> float:
    """Return the share of similar lines among all lines of both sequences, regardless of order."""
    left = list(other)
    both = 0
    for text in one:
        best = max(left, key=lambda each: alike(text, each), default="")
        if best and alike(text, best) >= 0.5:
            left.remove(best)
            both += 1
    return both / (len(one) + len(other) - both) if one or other else 0.0
