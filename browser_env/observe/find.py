"""Finds a text in an outline: the lines that have it, and what stands around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from selfsurf.browser_env.observe.outline import parse_line, quote

AROUND = 1
"""Neighbours on each side of a line that come with it."""

MOST = 20
"""Lines that are found at most."""

SCALES = (1, 8, 64, None)
"""How many times as much of the page is observed, until it suffices; None for the whole page."""

_GAP = "\0"
"""Stands for parts of a page that were left out, and begins `_MORE` (`page/branches.js`)."""

_MORE = "\0more"
"""Stands for parts that may have the text."""


class Found(NamedTuple):
    """A line of the page that has a text."""

    line: str
    """As the outline has it, without indentation."""
    id: int | None
    """Of the element that the line is of, or else of the nearest element in whose line it stands; None for neither."""
    around: str
    """The line with its neighbours, indented as in the outline."""


def find_in(dom: str, text: str, *, around: int = AROUND, most: int = MOST) -> tuple[Found, ...]:
    """Return the lines of an outline that have a text, in any case and with any blanks, in the page's order.

    Args:
        dom: the outline.
        text: what is looked for.
        around: neighbours of a line on each side.
        most: lines at most.

    Raises:
        ValueError: there is nothing to look for.
    """
    wanted = " ".join(text.split()).casefold()
    if not wanted:
        raise ValueError("There is no text to look for.")
    rows = dom.split("\n")
    lines = [parse_line(row) for row in rows]
    found: list[Found] = []
    for number, line in enumerate(lines):
        said = line.words if line.id is None else line.text
        if wanted not in " ".join(said.split()).casefold():
            continue
        id, indent = line.id, line.indent
        for above in reversed(lines[:number]):  # up through what the line is in
            if id is not None:
                break
            if above.indent < indent:
                id, indent = above.id, above.indent
        near = rows[max(0, number - around) : number + around + 1]
        found.append(Found(rows[number].strip(), id, "\n".join(near)))
        if len(found) == most:
            break
    return tuple(found)


def suffices(dom: str, text: str, *, around: int, most: int) -> bool:
    """Whether `find_in` finds in the outline of a page's branches what it would find in that of the whole page."""
    before, more, _ = dom.partition(_MORE)
    if more and len(find_in(before, text, around=0, most=most)) < most:
        return False
    # A line's container is written in the same line if nothing else is in it.
    return not any(_GAP in one.around for one in find_in(dom, text, around=around + 2, most=most))


def as_outline(found: Sequence[Found], text: str) -> str:
    """Return what was found as an outline for a model."""
    return "\n...\n".join(one.around for one in found) or f"No line has {quote(text)}."
