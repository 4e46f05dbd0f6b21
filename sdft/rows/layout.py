"""Random rearrangement of an outline, without some of the lines that a flow doesn't use."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from selfsurf.browser_env.goal.words import bounded
from selfsurf.browser_env.outline import OutlineLine, parse_outline
from selfsurf.sdft.rows.tree import Tree

MOST_LEFT_OUT = 0.5
"""Maximum share of omitted lines among those that no recorded action uses."""

OTHER_ORDER = 0.5
"""Probability that the lines are reordered."""

_PART_OF_OTHERS = ("option",)
"""Roles of lines that belong to the element above them."""


class Layout:
    """A random arrangement, the same for all pages of a variation.

    Args:
        rng: random generator.
        touched: ids of the recorded actions' elements, which are never omitted.
        in_order: ids of elements that may have been chosen by position. Lines beside them keep their order, and the
            text around them stays because it may distinguish them.
        said: texts that actions share with goal or pages; lines with such a text are never omitted.
        groups: ids of each choice's members, which are never omitted; with their parts of the page they are shuffled.
    """

    def __init__(
        self,
        rng: np.random.Generator,
        touched: Collection[int],
        in_order: Collection[int],
        said: Collection[str],
        groups: Iterable[Sequence[int]] = (),
    ) -> None:
        self._seed = int(rng.integers(2**31))
        self._share = max(0.0, rng.uniform(-MOST_LEFT_OUT / 2, MOST_LEFT_OUT))
        self._as_it_was = bool(rng.random() >= OTHER_ORDER)
        self._touched = frozenset(touched)
        self._in_order = frozenset(in_order)
        groups = list(groups)
        self._members = frozenset(id for ids in groups for id in ids)
        self._groups = [[ids[at] for at in rng.permutation(len(ids))] for ids in groups]
        self._rows: set[OutlineLine] = set()
        self._said = re.compile("|".join(map(bounded, said)) or r"(?!)", re.IGNORECASE)

    def of(self, observation: Mapping[str, Any]) -> dict[str, Any]:
        """Return a page in this arrangement: its outline, and its elements in the outline's order."""
        lines = parse_outline(observation["dom"])
        was = {line.id for line in lines}
        for group in self._groups:
            lines, rows = _exchanged(lines, group)
            self._rows |= rows
        arranged = self._arranged(lines)
        places = {line.id: at for at, line in enumerate(arranged) if line.id is not None}
        kept = [one for one in observation["elements"] if one["id"] in places or one["id"] not in was]
        kept.sort(key=lambda one: places.get(one["id"], len(arranged)))
        elements = [{**one, "options": self._mixed(one["options"])} if one.get("options") else one for one in kept]
        return {**observation, "dom": "\n".join(map(str, arranged)), "elements": elements}

    def _mixed(self, options: Sequence[str]) -> list[str]:
        return sorted(options, key=lambda one: self._drawn(f"place of option {one}"))

    def _arranged(self, lines: Sequence[OutlineLine]) -> list[OutlineLine]:
        blocks: list[list[OutlineLine]] = []
        for line in lines:
            if blocks and line.indent > blocks[-1][0].indent:
                blocks[-1].append(line)
            else:
                blocks.append([line])
        by_place = any(line.id in self._in_order for line in lines)
        kept = [block for block in blocks if not self._left_out(block, by_place)]
        if not by_place:
            movable = range(len(kept)) if not self._as_it_was else self._choices(kept)
            mixed = iter(sorted((kept[at] for at in movable), key=lambda one: self._drawn(f"place of {_name(one)}")))
            kept = [next(mixed) if at in movable else block for at, block in enumerate(kept)]
            used = iter([block for block in blocks if self._is_used(block)])
            kept = [next(used) if self._is_used(block) else block for block in kept]
        return [
            line for head, *below in kept
            for line in (head, *(below if head in self._rows or not below else self._arranged(below)))
        ]  # fmt: skip

    def _choices(self, blocks: Sequence[Sequence[OutlineLine]]) -> list[int]:
        """Return the indices of the blocks that are options."""
        return [at for at, block in enumerate(blocks) if block[0].text.startswith(_PART_OF_OTHERS)]

    def _is_used(self, block: Sequence[OutlineLine]) -> bool:
        """Whether a recorded action uses the block. Used blocks keep their order: forms are filled in downwards."""
        return any(line.id in self._touched for line in block)

    def _left_out(self, block: Sequence[OutlineLine], by_place: bool) -> bool:
        head = block[0]
        if len(block) > 1 or head.id in self._touched | self._members or head.text.startswith(_PART_OF_OTHERS):
            return False
        if (by_place and head.id is None) or head in self._rows or self._said.search(head.text):
            return False
        return self._drawn(_name(block)) < self._share

    def _drawn(self, name: str) -> float:
        """Return a pseudorandom number from 0 to 1, always the same for a name."""
        return float(np.random.default_rng([self._seed, *name.encode()]).random())


def _exchanged(lines: list[OutlineLine], ids: Sequence[int]) -> tuple[list[OutlineLine], set[OutlineLine]]:
    """Put the elements' parts of the page into the order of the ids; return all lines and the moved ones."""
    tree = Tree(lines)
    there = [id for id in ids if id in tree.places]
    if len(there) < 2:
        return lines, set()
    blocks = tree.blocks(there) or [range(tree.places[id], tree.places[id] + 1) for id in there]
    result: list[OutlineLine] = []
    rows: set[OutlineLine] = set()
    end = 0
    for place, block in zip(sorted(blocks, key=lambda one: one.start), blocks, strict=True):
        moved = [lines[at] for at in block]
        by = lines[place.start].indent - moved[0].indent
        moved = [one._replace(indent=one.indent + by) for one in moved]
        result += [*lines[end : place.start], *moved]
        rows.update(moved if len(moved) > 1 else ())
        end = place.stop
    return [*result, *lines[end:]], rows


def _name(block: Sequence[OutlineLine]) -> str:
    """Return the name of a block: the first element's or option's role and name, or the text."""
    named = (line.element or (line.text.startswith(_PART_OF_OTHERS) and line._replace(id=0).element) for line in block)
    found = next((one for one in named if one), None)
    return block[0].text if found is None else f"{found.role} {found.name}"
