"""Which strings of a snapshot a person reads as one line: texts of neighbouring inline elements, with nothing between.

Rows, cells, list items, options, fields and attributes are lines of their own. Works on plain data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from selfsurf.browser_env.safety.private_text import CALLS, SOFT

TYPOGRAPHIC = frozenset({
    "b", "big", "code", "em", "emphasis", "font", "i", "mark", "s", "small", "strong", "sub", "subscript", "sup",
    "superscript", "u", "wbr",
})  # fmt: skip
"""Tags and roles that change how letters look: there is no gap beside them unless the text has one."""
INLINE = TYPOGRAPHIC | {
    "a", "abbr", "bdi", "bdo", "cite", "data", "del", "deletion", "dfn", "inlinetextbox", "ins", "insertion", "kbd",
    "label", "labeltext", "link", "output", "q", "samp", "span", "statictext", "#text", "time", "tt", "var",
}  # fmt: skip
"""Tags and roles of what stands within a line."""
_CONTENT = frozenset({"children", "childNodes"})
_OWN = frozenset({"name", "text", "nodeValue"})
"""Keys of an inline node under which its text is, if it has no children."""
_SEPARATE = frozenset({"options", "states", "attributes", "strings", "tabs", "events"})
"""Keys of lists whose strings have nothing to do with each other."""
_LONGEST = 200
"""Characters of a string that may be part of a line; a longer one is a line of its own."""
_MARKUP = re.compile(r"<!--.*?-->|<(/?)([a-zA-Z][\w-]*)([^>]*)>|([^<>]+)", re.DOTALL)
_ATTRIBUTE = re.compile(r"=\s*(?:\"([^\"]*)\"|'([^']*)')")
_HREF = re.compile(rf"\bhref\s*=\s*[\"']?{CALLS.pattern}", re.IGNORECASE)


class Piece(NamedTuple):
    """A text in a line, and its place: `holder[key]`, from a character on."""

    text: str
    kind: str = ""
    """Tag or role of the element around it."""
    calls: bool = False
    """Whether it is in a link to a telephone number."""
    holder: Any = None
    key: Any = None
    start: int = 0


Line = Sequence[Piece]


def joined(line: Line) -> tuple[str, list[int]]:
    """Return a line's text, with `SOFT` where pieces meet, and where each piece begins in it."""
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


def lines_of(record: list[Any] | dict[Any, Any]) -> list[Line]:
    """Return the lines of plain data; each string is in one. A string of markup is one, and then its own lines are."""
    reader = _Reader()
    reader.read(record)
    return reader.lines


def calls(node: Mapping[Any, Any]) -> str:
    """Return the address of a node that is a link to a telephone number; empty for others."""
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


class _Reader:
    """Reads data in its order; the line that is being read ends where a block begins or ends."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self._line: list[Piece] = []

    def read(self, record: list[Any] | dict[Any, Any]) -> None:
        self._values(record, "", "", False, True)
        self._end()

    def _end(self) -> None:
        if self._line:
            self.lines.append(self._line)
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
        leaf = within and not any(values.get(one) for one in _CONTENT)
        for name, value in values.items():
            piece = Piece("", own or kind, called, values, name)
            if name == "name" and not within and (cells := _cells(values)):
                self.lines += [[piece._replace(text=value[at:end], start=at)] for at, end in cells]
            else:
                self._value(piece, value, name in _CONTENT or (leaf and inline and name in _OWN))
        if not within:
            self._end()

    def _string(self, piece: Piece, inline: bool) -> None:
        marked_up = "<" in piece.text and ">" in piece.text
        if inline and not marked_up and len(piece.text) <= _LONGEST and "\n" not in piece.text:
            self._line.append(piece)
            return
        if inline:
            self._end()
        self.lines.append([piece])
        if marked_up:
            self.lines += [line for line in _lines_of_markup(piece) if len(line) > 1]


def _cells(node: Mapping[Any, Any]) -> list[tuple[int, int]]:
    """Return where a node's name has those of its cells; empty unless it is made of them."""
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
    called = False
    for found in _MARKUP.finditer(markup.text):
        if text := found[4]:
            kind = kinds[-1] if kinds else ""
            start = markup.start + found.start()
            line.append(markup._replace(text=text, kind=kind, calls=called, start=start))
        elif tag := (found[2] or "").lower():
            if tag not in INLINE:
                yield line
                line, kinds = [], []
            elif found[1]:
                kinds = kinds[:-1]
            elif tag != "wbr":
                kinds.append(tag)
            if tag == "a":
                called = not found[1] and bool(_HREF.search(found[3]))
    yield line


def pieces_of(holder: Any, key: Any, text: str) -> list[Piece]:
    """Return the attributes and texts of a string of markup, in order; of any other string the whole."""
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
