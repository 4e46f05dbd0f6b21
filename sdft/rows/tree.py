"""An outline's lines as a tree, and the parts of it that belong to similar elements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from selfsurf.browser_env.outline import OutlineLine


class Tree:
    """Lines of an outline, each a child of the nearest earlier line with less indentation.

    Args:
        lines: all lines of the outline.
    """

    def __init__(self, lines: Sequence[OutlineLine]) -> None:
        self.lines = lines
        self.places = {line.id: at for at, line in enumerate(lines) if line.id is not None}
        """Line index of each element, by element id."""
        self._above: list[int] = []
        open_: list[int] = []
        for at, line in enumerate(lines):
            while open_ and lines[open_[-1]].indent >= line.indent:
                open_.pop()
            self._above.append(open_[-1] if open_ else -1)
            open_.append(at)

    def around(self, id: int) -> Iterator[range]:
        """Yield the parts of the page around an element, from the smallest to the whole page."""
        at = self._above[self.places[id]]
        while at >= 0:
            yield self._below(at)
            at = self._above[at]
        yield range(len(self.lines))

    def blocks(self, ids: Sequence[int]) -> list[range]:
        """Return the part of the page that belongs to each of several elements: their rows, cards or lines.

        In a flat list with text beside each element, a part extends as far as its structure equals that of the others.

        Returns:
            Parts that don't overlap, in the order of the ids; none if two elements are in one part.
        """
        part = next(part for part in self.around(ids[0]) if all(self.places[id] in part for id in ids))
        heads = [at for at in part if self._above[at] == part.start - 1 or (part.start == 0 and self._above[at] < 0)]
        parts = [range(*ends) for ends in pairwise([*heads, part.stop])]
        own = [next(n for n, one in enumerate(parts) if self.places[id] in one) for id in ids]
        if len(set(own)) < len(own):
            return []
        before, length = self._period(parts, sorted(own))
        return [range(parts[n - before].start, parts[n - before + length - 1].stop) for n in own]

    def _period(self, parts: Sequence[range], own: Sequence[int]) -> tuple[int, int]:
        """Return the number of parts before each element that belong to it, and of all its parts; else 0 and 1."""
        gaps = {after - before for before, after in pairwise(own)}
        if len(gaps) != 1:
            return 0, 1
        (length,) = gaps
        kinds = [tuple(self.kind(at) for at in part) for part in parts]
        before = 0
        while before < length - 1 and own[0] > before and kinds[own[0] - before - 1] == kinds[own[1] - before - 1]:
            before += 1
        blocks = [kinds[n - before : n - before + length] for n in own]
        return (before, length) if all(one == blocks[0] for one in blocks) else (0, 1)

    def kind(self, at: int) -> str:
        """Return the kind of a line: an element's role, a container's role, "heading" or "text"."""
        line = self.lines[at]
        contains = at + 1 < len(self.lines) and self._above[at + 1] == at
        return (
            line.text.partition(" ")[0]
            if line.id is not None or contains or line.text.startswith('heading "')
            else "text"
        )

    def _below(self, at: int) -> range:
        end = next((n for n in range(at + 1, len(self.lines)) if self.lines[n].indent <= self.lines[at].indent), None)
        return range(at + 1, len(self.lines) if end is None else end)
