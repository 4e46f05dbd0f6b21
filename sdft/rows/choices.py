"""Choices in a recording (options, links, radio buttons, table rows), and the words by which the goal decides them.

In a variation only the goal may identify the right member, so all alternatives have to be known: they exchange their
positions and words together (`renaming.py`, `layout.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from selfsurf.browser_env.goal.words import SMALL, WORD, bounded, shared_words, words_of
from selfsurf.browser_env.outline import OutlineLine, parse_outline
from selfsurf.sdft.rows.tree import Tree
from selfsurf.sdft.teacher.recording import RecordedStep, Recording

MOST = 60
"""Maximum number of members of a choice; a larger set is not decided by the goal's words."""

_OPTIONS = ("radio", "checkbox", "option", "switch", "tab", "menuitemradio", "menuitemcheckbox")
"""Roles whose elements are members of one choice if they share a part of the page, whatever their names."""


@dataclass(frozen=True)
class Choice:
    """A choice made at a step: one of several elements, or one option of an element."""

    step: int
    label: str
    """Name of the choice: the field's name, or the common words of the members' names."""
    ids: tuple[int, ...]
    """Element ids of the members, in page order; empty for options."""
    names: tuple[str, ...]
    """Names of the members."""
    chosen: int
    """Index of the chosen member."""
    columns: tuple[tuple[str, ...], ...]
    """Columns of texts that distinguish the members. A column has one text per member, and the goal contains that of
    the chosen member. Empty if the goal doesn't identify the member."""
    rows: tuple[tuple[str, ...], ...] = ()
    """Texts in each member's part of the page, if these parts have the same structure."""

    @property
    def value(self) -> str:
        """Text by which the goal identifies the chosen member."""
        return " ".join(column[self.chosen] for column in self.columns)


def choices_of(recording: Recording) -> list[Choice]:
    """Return the choices of a recording, in their order."""
    touched = {id for shown in recording.steps for id in _touched(shown)}
    return [
        choice
        for step, shown in enumerate(recording.steps)
        for choice in _choices(step, shown, recording.goal, touched)
    ]


def _choices(step: int, shown: RecordedStep, goal: str, touched: set[int]) -> list[Choice]:
    action: Any = shown.action
    elements = {one["id"]: one for one in shown.observation["elements"]}
    element = elements.get(getattr(action, "id", None))
    if element is None:
        return []
    if action.name == "select":
        options = tuple(dict.fromkeys(filter(str.strip, element.get("options", ()))))
        if not 1 < len(options) <= MOST:
            return []
        return [
            Choice(step, element["name"], (), options, options.index(one), _by_name(options, options.index(one), goal))
            for one in action.options
            if one in options
        ]
    if action.name != "click":
        return []
    page = Tree(parse_outline(shown.observation["dom"]))
    if action.id not in page.places:
        return []
    ids = _kin(page, element, elements, touched)
    if not 1 < len(ids) <= MOST:
        return []
    names = tuple(elements[id]["name"] for id in ids)
    chosen = ids.index(element["id"])
    rows = tuple(tuple(said_by(page.lines[at]) for at in block) for block in page.blocks(ids))
    rows = rows if len({len(row) for row in rows}) == 1 else ()
    columns = _by_name(names, chosen, goal) or _by_columns(rows, chosen, goal)
    return [Choice(step, _common(names) or element["role"], tuple(ids), names, chosen, columns, rows)]


def _touched(shown: RecordedStep) -> set[int]:
    found = (getattr(shown.action, key, None) for key in ("id", "from_", "to"))
    return {one for one in found if isinstance(one, int)}


def _kin(
    page: Tree, element: Mapping[str, Any], elements: Mapping[int, Mapping[str, Any]], touched: set[int]
) -> list[int]:
    """Return, in page order, the elements of one role in the smallest part of the page that has several of them.

    Links and buttons are limited to those with similar names, if several exist: with the same name, like the buttons of
    table rows, or with names of one form, such as "Book NAME".
    """
    own, role = element["id"], element["role"]
    names = {
        id: one["name"] for id, one in elements.items() if id == own or (one["role"] == role and id not in touched)
    }
    among = [id for id in page.places if id in names]
    if role not in _OPTIONS:
        words = {id: words_of(names[id]) for id in among}
        alike = [id for id in among if names[id] == names[own] or _form(words[own], words[id])]
        among = alike if len(alike) > 1 else among
    for part in page.around(own):
        found = [id for id in among if page.places[id] in part]
        if len(found) > 1:
            return found
    return [own]


def _form(name: Sequence[str], other: Sequence[str]) -> bool:
    """Whether two names of several words begin or end with the same word."""
    return min(len(name), len(other)) > 1 and (name[0] == other[0] or name[-1] == other[-1])


def _common(names: Sequence[str]) -> str:
    """Return the words with which all names begin or end."""
    said = [words_of(name) for name in names]
    first = [row[0] for row in zip(*said, strict=False) if len(set(row)) == 1]
    last = [row[0] for row in zip(*(one[::-1] for one in said), strict=False) if len(set(row)) == 1]
    return " ".join(word for word in first or last[::-1] if word.lower() not in SMALL)


def _by_name(names: Sequence[str], chosen: int, goal: str) -> tuple[tuple[str, ...], ...]:
    slots = _slots(names, chosen, goal)
    if slots and sum(bool(re.search(bounded(slots[chosen]), name)) for name in names) == 1:
        return (slots,)
    return _by_columns([words_of(name) for name in names], chosen, goal)  # handles names such as "Mon 08:00"


def _slots(texts: Sequence[str], chosen: int, goal: str) -> tuple[str, ...]:
    """Return the part of each text that corresponds to the part of the chosen text in the goal; empty if none."""
    value = shared_words(texts[chosen], goal, [one for one in texts if one != texts[chosen]])
    if not value or len(set(texts)) == 1:
        return ()
    before, _, after = texts[chosen].partition(value)
    return tuple(_within(one, before, after) for one in texts)


def _within(name: str, before: str, after: str) -> str:
    """Strip from a name the words that surround the value in another name.

    All numbers count as equal: "France (+33)" beside "Germany (+49)" gives "France".
    """
    words = list(WORD.finditer(name))
    said = [_kind(one[0]) for one in words]
    start = _alike(said, [*map(_kind, words_of(before))])
    end = len(words) - _alike(said[::-1], [*map(_kind, words_of(after))][::-1])
    return name[words[start].start() : words[end - 1].end()] if start < end else name


def _kind(word: str) -> str:
    return "0" if word[0].isdigit() else word


def _alike(words: Sequence[str], others: Sequence[str]) -> int:
    """Return the number of words with which both texts begin."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(words, others, strict=False)))


def _by_columns(rows: Sequence[Sequence[str]], chosen: int, goal: str) -> tuple[tuple[str, ...], ...]:
    """Return the columns that distinguish members and that the goal decides, from one row of texts per member."""
    if not rows or len({len(row) for row in rows}) > 1:
        return ()
    columns = [_slots(column, chosen, goal) for column in zip(*rows, strict=True)]
    found = tuple(dict.fromkeys(one for one in columns if one))
    values = [*zip(*found, strict=True)]
    return found if found and values.count(values[chosen]) == 1 else ()


def said_by(line: OutlineLine) -> str:
    """Return the text of a line: an element's name, or plain text."""
    return line.words if line.element is None else line.element.name
