"""Extraction of JSON objects from a text, sloppy objects included, in time linear in the text's length.

It repairs single, smart and full-width quotes, unquoted names, comments, trailing, doubled and missing commas, Python's
constants, quote marks inside a string that no delimiter follows, and a missing end. Cut-off values are never completed:
an object at the end of the text counts as it is if only closing braces or a reason are missing, but not if a number, a
word or any other string is cut.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

WORK = 25_000
"""Number of characters scanned without a match after which the search for objects ends."""

_EACH = 8
"""Cost of trying a brace, in characters."""

MAX_DEPTH = 12
"""Maximum nesting depth of a sloppy object."""

REASONS = frozenset(
    {
        "reason", "reasoning", "rationale", "thought", "thoughts", "thinking", "explanation", "why", "comment", "note",
        "description", "summary", "analysis", "justification", "confidence",
    }
)  # fmt: skip
"""Names of fields with a model's remarks on its action, which may be cut off without loss."""

_OPEN = re.compile(r"[{｛]")
_QUOTES = {'"': '"', "＂": '＂"', "“": '”“"', "”": '”"', "„": '“”"', "'": "'", "‘": "’'", "’": "’'", "`": "`"}
_UNTIL = {mark: re.compile(rf"[^\\{ends}]*+") for mark, ends in _QUOTES.items()}
_SPACE = re.compile(r"(?:[\s\ufeff]++|//[^\n]*+|/\*[^*]{0,200}+\*/|#[ \t][^\n]*+)*+")
_END = re.compile(r"\Z|```|</|<\|")
_KEY = re.compile(
    r'["“”„＂]([^"“”„＂\\{}\[\]:,\n]{0,80}+)["“”＂]|[\'‘’`]([^\'‘’`"\\{}\[\]:,\n]{0,80}+)[\'‘’`]|([A-Za-z_][\w-]{0,80}+)'
)
_CUT_KEY = re.compile(r"[\"“'‘]?(\w*+)\s*+\Z")
_COLON = re.compile(r"=>|[:：=]")
_AFTER = re.compile(r"\s*+(?:[,}\]，｝、]|//|/\*|\Z|```|</|<\|)|[^\S\n]*+\n\s*+[\"“'][A-Za-z_]\w{0,40}+[\"”']\s*+[:：]")
_NUMBER = re.compile(r"[-+]?\d++(?:\.\d*+)?(?:[eE][-+]?\d++)?(?![\w.])")
_STRICT_NUMBER = re.compile(r"-?(?:0|[1-9]\d*+)(\.\d++)?([eE][-+]?\d++)?")
_WORD = re.compile(r"[A-Za-z_][\w+-]{0,60}+")
_CONSTANTS = {"true": True, "false": False, "null": None, "none": None}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_ESCAPED = frozenset("\"'/\\`“”‘’\n")


class DecimalLiteral(float):
    """A decimal number with its notation, so that `1.50` does not become `1.5` as text."""

    def __new__(cls, text: str) -> DecimalLiteral:
        """Create the number from its notation."""
        number = super().__new__(cls, text)
        number.written = text
        return number

    written: str


_STRICT = json.JSONDecoder(strict=False, parse_float=DecimalLiteral, parse_constant=str)


@dataclass(frozen=True)
class LooseObject:
    """An object and its place in the text."""

    start: int
    end: int
    data: dict[str, Any]
    """Content of the object; empty if the text ends inside one of the object's strings."""
    strict: bool
    """Whether the object is valid JSON."""
    cut: bool = False
    """Whether the object's end is missing."""


class _Unreadable(ValueError):
    """The text is not an object, not even a sloppy one."""


class _InString(_Unreadable):
    """The text ends inside a string."""


def objects(text: str, *, sloppy: bool = True) -> list[LooseObject]:
    """Return the outermost objects of the text in order, skipping unreadable ones.

    Args:
        text: any text.
        sloppy: whether to include objects that are not strict JSON.
    """
    found: list[LooseObject] = []
    work = 0
    opening = _OPEN.search(text)
    while opening and work < WORK:
        start = opening.start()
        one, wasted = _strict(text, start)
        if one is None and sloppy:
            one, more = _sloppy(text, start)
            wasted += more
        if one is not None:
            found.append(one)
        work += _EACH if one is not None else _EACH + wasted
        opening = _OPEN.search(text, one.end if one else start + 1)
    return found


def load(text: str) -> Any:
    """Return the object or list that is the whole text, repaired if needed; None if there is none or it is cut off."""
    text = text.strip()
    if text[:1] not in ("{", "["):
        return None
    try:
        data, end = _STRICT.raw_decode(text)
    except (ValueError, RecursionError):
        reader = _Reader(text, 0)
        try:
            data = reader.value(0)
        except ValueError:
            return None
        end = -1 if reader.cut else reader.position
    return data if end == len(text) else None


def inside(spans: Sequence[tuple[int, int]], position: int) -> bool:
    """Whether a position lies in one of the spans, which must be sorted and disjoint."""
    index = bisect_right(spans, (position, 1 << 62)) - 1
    return index >= 0 and position < spans[index][1]


def unescape(text: str) -> str:
    r"""Remove one level of escapes: `{\"click\": 4}` becomes `{"click": 4}`."""
    return _ESCAPE.sub(_unescaped, text)


def _unescaped(found: re.Match[str]) -> str:
    mark = found[1]
    if len(mark) == 5:
        return chr(int(mark[1:], 16))
    return _ESCAPES.get(mark) or (mark if mark in _ESCAPED else found[0])


def _strict(text: str, start: int) -> tuple[LooseObject | None, int]:
    """Return the strict object at `start`, or None and the number of characters scanned."""
    if text[start : start + 1] != "{":
        return None, 1
    try:
        data, end = _STRICT.raw_decode(text, start)
    except json.JSONDecodeError as error:
        unterminated = error.msg.startswith("Unterminated")  # `error.pos` is the start of the string
        return None, (len(text) if unterminated else error.pos) - start + 1
    except (ValueError, RecursionError):  # numbers of thousands of digits, or thousands of brackets
        return None, len(text) - start
    return LooseObject(start, end, data, strict=True), 0


def _sloppy(text: str, start: int) -> tuple[LooseObject | None, int]:
    reader = _Reader(text, start)
    try:
        data = reader.object(0)
    except _InString:
        return LooseObject(start, len(text), {}, strict=False, cut=True), 0
    except ValueError:
        return None, reader.furthest - start + 1
    if reader.cut and not data and not reader.dropped:
        return None, reader.position - start + 1
    return LooseObject(start, reader.position, data, strict=False, cut=reader.cut), 0


@dataclass(eq=False)
class _Reader:
    """Recursive-descent reader of one sloppy object; every character is read once."""

    text: str
    position: int
    furthest: int = 0
    cut: bool = False
    dropped: bool = False

    def object(self, depth: int) -> dict[str, Any]:
        """Read the object that begins at the current position."""
        if depth > MAX_DEPTH:
            raise _Unreadable
        data: dict[str, Any] = {}
        self._step(1)
        while True:
            if self._ended():
                self.cut = True
                return data
            if self.text[self.position] in "}｝":
                self._step(1)
                return data
            if self.text[self.position] in ",，、":
                self._step(1)
                continue
            key = self._key()
            if key is None:
                return data
            try:
                data[key] = self.value(depth)
            except _InString:
                if key.lower() not in REASONS:
                    raise
                self.cut = self.dropped = True
                self._step(len(self.text) - self.position)
                return data

    def _key(self) -> str | None:
        """Read the next key and its colon; None if the text ends inside the key of a remark."""
        found = _KEY.match(self.text, self.position)
        if found:
            name, whole = next(group for group in found.groups() if group is not None), found[3] is None
            self._step(found.end() - self.position)
            if not self._ended():
                colon = _COLON.match(self.text, self.position)
                if not colon:
                    raise _Unreadable
                self._step(colon.end() - self.position)
                if not self._ended():
                    return name
        else:
            half = _CUT_KEY.match(self.text, self.position)
            if not half:
                raise _Unreadable
            name, whole = half[1], False
            self._step(half.end() - self.position)
        if name in REASONS or (not whole and any(reason.startswith(name) for reason in REASONS)):
            self.cut = self.dropped = True
            return None
        raise _Unreadable

    def value(self, depth: int) -> Any:
        """Read the value that begins at the current position."""
        mark = self.text[self.position]
        if mark in "{｛":
            return self.object(depth + 1)
        if mark in "[［【":
            return self._array(depth + 1)
        if mark in _QUOTES:
            return self._string(mark)
        number = _NUMBER.match(self.text, self.position)
        word = number or _WORD.match(self.text, self.position)
        if not word or word.end() == len(self.text):  # the value may be cut off by the end of the text
            raise _Unreadable
        self._step(word.end() - self.position)
        if number:
            strict = _STRICT_NUMBER.fullmatch(number[0])
            if not strict:
                return number[0]
            return DecimalLiteral(number[0]) if strict[1] or strict[2] else int(number[0])
        return _CONSTANTS.get(word[0].lower(), word[0])

    def _array(self, depth: int) -> list[Any]:
        if depth > MAX_DEPTH:
            raise _Unreadable
        items: list[Any] = []
        self._step(1)
        while True:
            if self._ended():
                self.cut = True
                return items
            if self.text[self.position] in "]］】":
                self._step(1)
                return items
            if self.text[self.position] in ",，、":
                self._step(1)
                continue
            items.append(self.value(depth))

    def _string(self, mark: str) -> str:
        """Read a string. Quote marks that no delimiter follows are part of the string."""
        ends, until = _QUOTES[mark], _UNTIL[mark]
        start = index = self.position + 1
        while True:
            index = until.match(self.text, index).end()  # type: ignore[union-attr]
            self.furthest = max(self.furthest, index)
            if index >= len(self.text):
                if "\n\n" in self.text[start:]:  # a stray quote mark is likelier than a string with blank lines
                    raise _Unreadable
                raise _InString
            if self.text[index] == "\\":
                index += 2
            elif self.text[index] in ends and _AFTER.match(self.text, index + 1):
                break
            else:
                index += 1
        raw = self.text[start:index]
        self._step(index + 1 - self.position)
        return unescape(raw).encode("utf-16", "surrogatepass").decode("utf-16", "replace") if "\\" in raw else raw

    def _ended(self) -> bool:
        """Skip blanks and comments, and return whether the text, or the fence or tag around the object, ends here."""
        self._step(_SPACE.match(self.text, self.position).end() - self.position)  # type: ignore[union-attr]
        return _END.match(self.text, self.position) is not None

    def _step(self, characters: int) -> None:
        self.position += characters
        self.furthest = max(self.furthest, self.position)
