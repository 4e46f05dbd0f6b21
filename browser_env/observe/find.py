"""Text search in an outline: the lines that contain a text, and their neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from selfsurf.browser_env.outline import parse_line, quote

AROUND = 1
"""Default number of neighbours returned on each side of a found line."""

MOST = 20
"""Default maximum number of lines to find."""

SCALES = (1, 8, 64, None)
"""Factors by which the observed part of the page grows until the search suffices; None for the whole page."""

_GAP = "\0"
"""Placeholder for omitted parts of a page, and the beginning of `_MORE` (`page/branches.js`)."""

_MORE = "\0more"
"""Placeholder for omitted parts that may contain the text."""


class TextMatch(NamedTuple):
    """A line of the page that contains the text."""

    line: str
    """The line as in the outline, without indentation."""
    id: int | None
    """Id of the line's element, or else of the nearest element that contains the line; None if there is none."""
    around: str
    """The line with its neighbours, indented as in the outline."""


def find_in(dom: str, text: str, *, around: int = AROUND, most: int = MOST) -> tuple[TextMatch, ...]:
    """Return the lines of an outline that contain a text, in page order, ignoring case and differences in whitespace.

    Args:
        dom: the outline.
        text: the text to find.
        around: number of neighbours of a line on each side.
        most: maximum number of lines.

    Raises:
        ValueError: the text is empty.
    """
    wanted = " ".join(text.split()).casefold()
    if not wanted:
        raise ValueError("There is no text to look for.")
    rows = dom.split("\n")
    lines = [parse_line(row) for row in rows]
    found: list[TextMatch] = []
    for number, line in enumerate(lines):
        said = line.words if line.id is None else line.text
        if wanted not in " ".join(said.split()).casefold():
            continue
        id, indent = line.id, line.indent
        for above in reversed(lines[:number]):  # up through the line's containers
            if id is not None:
                break
            if above.indent < indent:
                id, indent = above.id, above.indent
        near = rows[max(0, number - around) : number + around + 1]
        found.append(TextMatch(rows[number].strip(), id, "\n".join(near)))
        if len(found) == most:
            break
    return tuple(found)


def suffices(dom: str, text: str, *, around: int, most: int) -> bool:
    """Whether `find_in` would find the same in this partial outline as in the outline of the whole page."""
    before, more, _ = dom.partition(_MORE)
    if more and len(find_in(before, text, around=0, most=most)) < most:
        return False
    # A container with a single item shares its line, so an omission nearby may change how the line reads.
    return not any(_GAP in one.around for one in find_in(dom, text, around=around + 2, most=most))


def as_outline(found: Sequence[TextMatch], text: str) -> str:
    """Return found lines as an outline for a model."""
    return "\n...\n".join(one.around for one in found) or f"No line has {quote(text)}."
