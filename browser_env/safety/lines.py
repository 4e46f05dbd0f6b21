"""Grouping of a snapshot's strings into lines as a person reads them: adjacent inline elements form one line.

Rows, cells, list items, options, fields and attributes are separate lines. Works on plain data.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from selfsurf.browser_env.safety.private_text import CALLS, PHONE_NAME, SOFT, is_phone

TYPOGRAPHIC = frozenset({
    "b", "big", "code", "em", "emphasis", "font", "i", "mark", "s", "small", "strong", "sub", "subscript", "sup",
    "superscript", "u", "wbr",
})  # fmt: skip
"""Tags and roles that only change how letters look: they add no gap to the text."""
INLINE = TYPOGRAPHIC | {
    "a", "abbr", "bdi", "bdo", "cite", "data", "del", "deletion", "dfn", "inlinetextbox", "ins", "insertion", "kbd",
    "label", "labeltext", "link", "output", "q", "samp", "span", "statictext", "#text", "time", "tt", "var",
}  # fmt: skip
"""Tags and roles of elements within a line."""
_TABLES = frozenset({"table", "grid", "treegrid", "layouttable"})
_ROWS = frozenset({"row", "tr", "layouttablerow"})
_CELLS = frozenset({"cell", "gridcell", "columnheader", "rowheader", "td", "th", "layouttablecell"})
_CONTENT = frozenset({"children", "childNodes"})
_OWN = frozenset({"name", "text", "nodeValue"})
"""Keys for the text of an inline node without children."""
_SEPARATE = frozenset({"options", "states", "attributes", "strings", "tabs", "events"})
"""Keys of lists whose strings are unrelated to each other."""
_LONGEST = 200
"""Maximum length in characters of a string that may be part of a line; a longer string is a line of its own."""
_MARKUP = re.compile(r"<!--.*?-->|<(/?)([a-zA-Z][\w-]*)([^>]*)>|([^<>]+)", re.DOTALL)
_ATTRIBUTE = re.compile(r"=\s*(?:\"([^\"]*)\"|'([^']*)')")
_HREF = re.compile(rf"\bhref\s*=\s*[\"']?{CALLS.pattern}", re.IGNORECASE)


class Piece(NamedTuple):
    """A text in a line, and its place: `holder[key]`, from the character `start`."""

    text: str
    kind: str = ""
    """Tag or role of the element that contains the text."""
    calls: bool = False
    """Whether the text is in a link to a phone number, or is a phone number according to a label (`with_calls`)."""
    holder: Any = None
    key: Any = None
    start: int = 0
    cell: tuple[int, int, int] = (0, 0, 0)
    """Table, row and column of the cell that contains the text, counted from 1; zeros outside tables."""


Line = Sequence[Piece]


def joined(line: Line) -> tuple[str, list[int]]:
    """Return a line's text, with `SOFT` between pieces, and the start of each piece in the text."""
    parts: list[str] = []
    starts, length = [], 0
    for number, piece in enumerate(line):
        if number and not ({piece.kind, line[number - 1].kind} & TYPOGRAPHIC):
            parts.append(SOFT)
            length += 1
        starts.append(length)
        parts.append(piece.text)
        length += len(piece.text)
    return "".join(parts), starts


def with_calls(lines: Iterable[Line]) -> Iterator[Line]:
    """Yield lines in order, with `calls` set on phone numbers beside or below a phone label such as "Mobile".

    Beside: in the next line of the same row, or outside tables in the next line. Below: in the column of a table whose
    first row has the label, and has no digits.
    """
    columns: set[tuple[int, int]] = set()
    headless: set[int] = set()
    before: tuple[int, int, int] | None = None
    """Cell of the previous line if that line is a phone label or a phone number; otherwise None."""
    after_name = False
    for line in lines:
        text = "".join(piece.text for piece in line).strip()
        if not text:
            yield line
            continue
        cell = table, row, column = line[0].cell
        beside = before is not None and (before == cell or (after_name and before[:2] == cell[:2]))
        after_name = bool(PHONE_NAME.fullmatch(text))
        below = (table, column) in columns and table not in headless
        calls = not after_name and (beside or below) and is_phone(text)
        if table and row == 1 and after_name:
            columns.add((table, column))
        elif row == 1 and any(map(str.isdigit, text)):
            headless.add(table)
        before = cell if after_name or calls else None
        yield [piece._replace(calls=True) for piece in line] if calls else _with_calls_within(line)


def _with_calls_within(line: Line) -> Line:
    """Return a line with `calls` set on each phone number that follows a phone label."""
    shown = [number for number, piece in enumerate(line) if piece.text.strip()]
    called = {
        number for name, number in pairwise(shown)
        if PHONE_NAME.fullmatch(line[name].text.strip()) and is_phone(line[number].text.strip())
    }  # fmt: skip
    return [piece._replace(calls=True) if at in called else piece for at, piece in enumerate(line)] if called else line


def lines_of(record: list[Any] | dict[Any, Any]) -> list[Line]:
    """Return the lines of plain data. Each string is in one line; a string of markup also yields its own lines."""
    reader = _Reader()
    reader.read(record)
    return reader.lines


def calls(node: Mapping[Any, Any]) -> str:
    """Return a node's link to a phone number; empty if there is none."""
    attributes = node.get("attributes")
    inner = attributes.get("href") if isinstance(attributes, Mapping) else None
    if isinstance(attributes, list) and "href" in attributes[:-1:2]:
        inner = attributes[attributes.index("href") + 1]
    addresses = (node.get("url"), node.get("href"), inner)
    return next((one for one in addresses if isinstance(one, str) and CALLS.match(one)), "")


def kind_of(node: Mapping[Any, Any]) -> str:
    """Return the role or tag of a node in lower case; empty for other data."""
    for key in ("role", "localName", "tag", "tagName", "nodeName"):
        kind = node.get(key)
        kind = kind.get("value") if isinstance(kind, Mapping) else kind
        if kind and isinstance(kind, str):
            return kind.lower()
    return ""


class _Cells:
    """A counter of tables, rows and columns that is updated as a reader enters and leaves elements."""

    def __init__(self) -> None:
        self.cell = (0, 0, 0)
        self._tables = 0
        self._outer: list[tuple[int, int, int]] = []

    def enter(self, kind: str) -> None:
        table, row, column = self.cell
        if kind in _TABLES:
            self._outer.append(self.cell)
            self._tables += 1
            self.cell = (self._tables, 0, 0)
        elif kind in _ROWS:
            self.cell = (table, row + 1, 0)
        elif kind in _CELLS:
            self.cell = (table, row, column + 1)

    def leave(self, kind: str) -> None:
        if kind in _TABLES and self._outer:
            self.cell = self._outer.pop()


class _Reader:
    """A reader of plain data in document order. The current line ends where a block begins or ends."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self._read: list[Line] = []
        """Lines that the page shows, in document order."""
        self._line: list[Piece] = []
        self._cells = _Cells()

    def read(self, record: list[Any] | dict[Any, Any]) -> None:
        self._values(record, "", "", False, True)
        self._end()
        self.lines += with_calls(self._read)

    def _end(self) -> None:
        if self._line:
            self._read.append(self._line)
            self._line = []

    def _value(self, piece: Piece, value: Any, inline: bool) -> None:
        if isinstance(value, str):
            if value:
                self._string(piece._replace(text=value), inline)
        elif isinstance(value, (dict, list)):
            if inline:
                self._values(value, str(piece.key), piece.kind, piece.calls, True)
                return
            outer, self._line = self._line, []
            alike = isinstance(value, list) and piece.key not in _SEPARATE and all(isinstance(x, str) for x in value)
            self._values(value, str(piece.key), piece.kind, piece.calls, alike)
            self._end()
            self._line = outer

    def _values(self, values: Any, key: str, kind: str, called: bool, inline: bool) -> None:
        if isinstance(values, list):
            for at, item in enumerate(values):
                self._value(Piece("", kind, called, values, at), item, inline)
            return
        own = kind_of(values)
        within = own in INLINE or not own
        called = called or bool(calls(values))
        if not within:
            self._end()
            self._cells.enter(own)
        leaf = within and not any(values.get(one) for one in _CONTENT)
        for name, value in values.items():
            piece = Piece("", own or kind, called, values, name)
            if name == "name" and not within and (cells := _cells(values)):
                self.lines += [[piece._replace(text=value[at:end], start=at)] for at, end in cells]
            else:
                self._value(piece, value, name in _CONTENT or (leaf and inline and name in _OWN))
        if not within:
            self._end()
            self._cells.leave(own)

    def _string(self, piece: Piece, inline: bool) -> None:
        marked_up = "<" in piece.text and ">" in piece.text
        if inline and not marked_up and len(piece.text) <= _LONGEST and "\n" not in piece.text:
            self._line.append(piece._replace(cell=self._cells.cell))
            return
        if inline:
            self._end()
        self.lines.append([piece])
        parts = _lines_of_markup(piece) if marked_up else _rows_of(piece) if "\n" in piece.text else ()
        self.lines += [line for line in with_calls(parts) if len(line) > 1 or (line and line[0].calls)]


def _cells(node: Mapping[Any, Any]) -> list[tuple[int, int]]:
    """Return the ranges of the cells' names within their row's name; empty if the name doesn't consist of them."""
    below, name = node.get("children"), node["name"]
    if not isinstance(below, list) or len(below) < 2 or not isinstance(name, str):
        return []
    places, at = [], 0
    for child in below:
        text = child.get("name") if isinstance(child, dict) and kind_of(child) not in INLINE else None
        if not isinstance(text, str):
            return []
        found = name.find(text, at)
        if found < 0 or name[at:found].strip():
            return []
        at = found + len(text)
        places.append((found, at))
    return [] if name[at:].strip() else places


def _lines_of_markup(markup: Piece) -> Iterator[Line]:
    line: list[Piece] = []
    kinds: list[str] = []
    called, cells = False, _Cells()
    for found in _MARKUP.finditer(markup.text):
        if text := found[4]:
            kind = kinds[-1] if kinds else ""
            start = markup.start + found.start()
            line.append(markup._replace(text=text, kind=kind, calls=called, start=start, cell=cells.cell))
        elif tag := (found[2] or "").lower():
            if tag not in INLINE:
                yield line
                line, kinds = [], []
                (cells.leave if found[1] else cells.enter)(tag)
            elif found[1]:
                kinds = kinds[:-1]
            elif tag != "wbr":
                kinds.append(tag)
            if tag == "a":
                called = not found[1] and bool(_HREF.search(found[3]))
    yield line


def _rows_of(piece: Piece) -> Iterator[Line]:
    """Yield the lines of a text, split at tabs, because browsers write table rows with tabs."""
    for row, line in enumerate(re.finditer(r"[^\n]+", piece.text), 1):
        for column, found in enumerate(re.finditer(r"[^\t]+", line[0]), 1):
            cell = (1, row, column) if "\t" in line[0] else (0, 0, 0)
            yield [piece._replace(text=found[0], start=piece.start + line.start() + found.start(), cell=cell)]


def pieces_of(holder: Any, key: Any, text: str) -> list[Piece]:
    """Return the attribute values and texts of a string of markup, in order; any other string is one piece."""
    if "<" not in text or ">" not in text:
        return [Piece(text, holder=holder, key=key)]
    pieces = []
    for found in _MARKUP.finditer(text):
        if found[4]:
            pieces.append(Piece(found[4], holder=holder, key=key, start=found.start()))
        elif found[3]:
            for value in _ATTRIBUTE.finditer(text, found.start(3), found.end(3)):
                group = 1 if value[1] is not None else 2
                pieces.append(Piece(value[group], holder=holder, key=key, start=value.start(group)))
    return [piece for piece in pieces if piece.text.strip()]
