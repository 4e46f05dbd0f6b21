"""Full redaction of pages, arguments and errors for logs. Works on plain data, without a browser.

Besides the secrets of this process's environments, it masks what is private by its place (values of fields, query
values) or by its format (`private_text`), and values that were once seen in a field wherever they occur later.
"""

from __future__ import annotations

import re
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from selfsurf.browser_env.safety.lines import Line, Piece, calls, joined, lines_of, pieces_of
from selfsurf.browser_env.safety.numbers import luhn
from selfsurf.browser_env.safety.private_text import (
    CARD_MARK,
    EMAIL_MARK,
    IBAN_MARK,
    NAMED,
    NAMED_PHONE,
    PHONE,
    PHONE_MARK,
    REDACTED,
    TOKEN_MARK,
    Masking,
    Span,
    calls_in,
    decoded,
    is_phone,
    mask_private,
    merged,
    replaced,
)
from selfsurf.browser_env.safety.secrets import find_known, known_values, redact_known

VALUE_MARK = "<value>"
"""Mark that replaces the present or past value of a field."""

_TYPED = frozenset({"text", "value", "answer", "variables", "password", "files", "content"})
"""Names of arguments whose value is entered into the page."""
_VALUES = frozenset({"value", "valuetext", "valueText", "inputValue", "defaultValue", "currentValue", "aria-valuetext"})
"""Keys of a snapshot's node that contain the value of a field."""
_NODE = frozenset({"role", "tag", "tagName", "nodeName", "localName", "nodeType", "name", "type"})
_WRAPPED = frozenset({
    "boolean", "tristate", "booleanOrUndefined", "idref", "idrefList", "integer", "node", "nodeList", "number",
    "string",
    "computedString", "token", "tokenList", "domRelation", "role", "internalRole", "valueUndefined",
})  # fmt: skip
"""Values of DevTools' `Accessibility.AXValueType`."""
_FIELD_ROLES = "textbox|searchbox|combobox|spinbutton|slider|textarea|input"
_PRIVATE_KEY = re.compile(rf"(?:.*[-_ ])?{NAMED}", re.IGNORECASE)
_PHONE_KEY = re.compile(rf"(?i:(?:.*[-_ ])?{NAMED_PHONE})|[a-z]+(?:Phone|Mobile|Tel|Fax)(?:Number)?")
_MARKUP_VALUE = re.compile(
    r"(<(?:input|button|option|meter|progress)\b[^>]*?\bvalue\s*=\s*)(\"[^\"]*\"|'[^']*'|[^\s>]+)", re.IGNORECASE
)
_TEXTAREA = re.compile(r"(<textarea\b[^>]*>)([^<]+)", re.IGNORECASE)
_EDITABLE = re.compile(r"(<(\w+)\b[^>]*?\bcontenteditable\b[^>]*>)(.*?)(?=</\2\s*>|$)", re.IGNORECASE | re.DOTALL)
_OUTLINE_VALUE = re.compile(rf"(\b(?:{_FIELD_ROLES})\b[^\n]*?\bvalue=)(\"(?:[^\"\\]|\\.)*\"|[^\s\]]+)")
_ARIA_VALUE = re.compile(
    rf"(?m)(^\s*-\s+(?:{_FIELD_ROLES})\b[^\n]*?(?:\"(?:[^\"\\]|\\.)*\")?[^\n:]*:[ \t]+)(\S[^\n]*)$"
)
_ENTERED = re.compile(
    r"\b(?:types?|typed|fill(?:ed|s)?(?: in)?|enters?|entered|writes?|inputs?|pastes?|sets?|search(?: for)?)\b"
    r"[^\"'\u201c\u2018\n]{0,60}"
    r"(?:\"([^\"\n]+)\"|'([^'\n]+)'|\u201c([^\u201d\n]+)\u201d|\u2018([^\u2019\n]+)\u2019)", re.IGNORECASE,
)  # fmt: skip
_WORD = re.compile(r"[^\s\"'<>]{6,}")
_SEGMENT = re.compile(r"[^<>\"']{6,}")
"""Pattern of a text that may contain an encoded value with spaces."""
_ENCODED = re.compile(r"&[#a-zA-Z]|\\[ux\\]|%[0-9a-fA-F]|=[0-9A-F]{2}")
_BLANK = re.compile(r"[\s\u200b\u200c\u200d\u00ad\u2060\ufeff]+")
_GROUPING = r"[\s().,/\u2010-\u2013-]*"
"""Pattern of separators between the digits of a number."""
_INTERNATIONAL = re.compile(
    r"(?:(?:\+|%2[Bb]|00)(?P<country>1|7|2[07]|3[0-469]|4[013-9]|5[1-8]|6[0-6]|8[1246]|9[0-58]|[2-9][0-9]{2})0?|0)"
    r"(?P<national>[0-9]{7,})"
)
"""Pattern of a phone number with a country or trunk prefix."""
_WHOLE = 6
"""Minimum length of values that are also found when split or encoded; shorter ones are found only as whole words."""
_SHORTEST = 3
_LONGEST = 200
"""Maximum length in characters of the parts in which a long line is learned and masked."""
_REPEATED = 64
"""Maximum length of texts whose result is cached."""
_REMEMBERED = 50_000


MASKS = (EMAIL_MARK, CARD_MARK, IBAN_MARK, PHONE_MARK, TOKEN_MARK, REDACTED)
"""Marks that `masked` inserts for everything but known secrets."""


def masked(text: str) -> str:
    """Mask secrets of this process's environments, and text that looks private.

    Idempotent.
    """
    return mask_private(str(redact_known(text)))


class Redactor:
    """A redactor of records that remembers the values it has met. May be shared by threads.

    Args:
        private: texts that are private whatever they look like.
    """

    def __init__(self, private: Iterable[str] = ()) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, None] = {}
        self._pattern: re.Pattern[str] | None = None
        self._squeezed: tuple[str, ...] = ()
        self._known: dict[str, Sequence[Span]] = {}
        self._words: dict[str, bool] = {}
        self.learn(private)

    def learn(self, values: Iterable[str]) -> None:
        """Mask these values from now on, wherever they occur. Values under 3 characters are ignored."""
        parts = (
            line[at : at + _LONGEST]
            for value in values
            for line in value.splitlines()
            for at in range(0, len(line), _LONGEST)
        )
        new = {part.strip(): None for part in parts if len(part.strip()) >= _SHORTEST}
        with self._lock:
            if not new.keys() - self._values.keys():
                return
            self._values |= new
            ordered = sorted(self._values, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(_loosely, ordered)), re.IGNORECASE)
            self._squeezed = tuple(squeezed for one in ordered if len(squeezed := _squeeze(one)) >= _WHOLE)
            self._known, self._words = {}, {}

    def learn_from(self, *snapshots: Any) -> None:
        """Learn the field values and phone numbers in snapshots of a page: trees, markup, outlines."""
        self.learn(value for snapshot in snapshots for value in _field_values(snapshot))
        self.learn_calls(lines_of(list(snapshots)))

    def learn_calls(self, lines: Iterable[Line]) -> None:
        """Learn the phone numbers in links, and those beside or below a phone label."""
        calling = [[piece for piece in line if piece.calls] for line in lines]
        self.learn(found[0] for line in calling if line for found in PHONE.finditer(joined(line)[0]))

    def learn_arguments(self, arguments: Mapping[str, Any]) -> None:
        """Learn the values that a call's arguments enter into the page."""
        typed: list[str] = []
        for key, value in arguments.items():
            typed += _strings(value) if key in _TYPED or _PRIVATE_KEY.fullmatch(key) else []
            if isinstance(value, dict):
                self.learn_arguments(value)
            elif isinstance(value, str):
                typed += [next(filter(None, found.groups())) for found in _ENTERED.finditer(value)]
        self.learn(typed)

    def arguments(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call in a form that a log may contain: every entered value is masked."""
        self.learn_arguments(arguments)
        return self._in_lines(self._arguments(arguments))

    def _arguments(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        redacted = {}
        for key, value in arguments.items():
            if key in _TYPED or _PRIVATE_KEY.fullmatch(key):
                redacted[self.text(key)] = _each_string(value, lambda _: VALUE_MARK)
            else:
                nested = isinstance(value, dict)
                redacted[self.text(key)] = self._arguments(value) if nested else self._copy(key, value, numbers=True)
        return redacted

    def record(self, record: Any) -> Any:
        """Return plain data with private parts masked, even if a value is split over several strings.

        Numbers are kept, except card numbers in actions: in a snapshot, numbers are IDs and positions.
        """
        return self._in_lines([self._copy("", record, numbers=False)])[0]

    def text(self, text: str) -> str:
        """Return a text with its private parts masked."""
        return replaced(text, self._spans(text))

    def line(self, line: Line) -> list[list[Span]]:
        """Return the private parts of each piece of a line."""
        found = [[*self._spans(piece.text)] for piece in line]
        if len(line) == 1 and not line[0].calls:
            return found
        text, starts = joined(line)
        called: list[tuple[int, int]] = []
        for number, (at, one) in enumerate(zip(starts, line, strict=True)):
            if one.calls:
                begun = called.pop()[0] if number and line[number - 1].calls else at
                called.append((begun, at + len(one.text)))
        for span in self._find(text, called=called, fields=False):
            for at, piece, spans in zip(starts, line, found, strict=True):
                start, end = max(span.start - at, 0), min(span.end - at, len(piece.text))
                if start < end and piece.text[start:end].strip():
                    spans.append(Span(start, end, span.mark))
        return [merged(spans) for spans in found]

    def _spans(self, text: str) -> Sequence[Span]:
        """Return the private parts of a text, from a cache for short texts."""
        if len(text) > _REPEATED:
            return self._find(text)
        known = self._known  # learning replaces the cache by another dictionary
        if (found := known.get(text)) is None:
            found = self._find(text)
            if len(known) < _REMEMBERED:
                known[text] = found
        return found

    def _find(self, text: str, *, called: Iterable[tuple[int, int]] = (), fields: bool = True) -> Sequence[Span]:
        masking = Masking(text)
        masking.hide(Span(*one) for one in find_known(text))
        masking.addresses()
        for start, end in called:
            masking.hide(calls_in(masking.rest, start, end))
        if self._pattern is not None:
            masking.each(self._pattern, VALUE_MARK)
        for pattern, group in _fields_in(text) if fields else ():
            masking.hide([_within_quotes(found, group) for found in pattern.finditer(text)])
        masking.look()
        words = [found for found in _WORD.finditer(masking.rest) if self._is_private(found[0])]
        masking.hide(Span(*found.span(), REDACTED) for found in words)
        if _ENCODED.search(masking.rest):
            parts = [found for found in _SEGMENT.finditer(masking.rest) if _ENCODED.search(found[0])]
            masking.hide(Span(*found.span(), REDACTED) for found in parts if self._is_private(found[0]))
        return masking.spans()

    def _is_private(self, word: str) -> bool:
        """Whether a word contains something private in encoded form."""
        known = self._words
        if (found := known.get(word)) is None:
            found = any(mask_private(said) != said or redact_known(said) != said or self._holds(said)
                        for said in decoded(word))  # fmt: skip
            if len(word) <= _REPEATED and len(known) < _REMEMBERED:
                known[word] = found
        return found

    def _holds(self, text: str) -> bool:
        if self._pattern is not None and self._pattern.search(text):
            return True
        squeezed = _squeeze(text)
        return any(value in squeezed for value in self._squeezed)

    def _copy(self, key: str, node: Any, *, numbers: bool) -> Any:
        """Return a copy with field values masked, and on request also card and phone numbers given as numbers."""
        if isinstance(node, str):
            return PHONE.sub(PHONE_MARK, node) if _PHONE_KEY.fullmatch(key) else node
        if isinstance(node, dict):
            is_node = not _NODE.isdisjoint(node)
            numbers = numbers or "action" in node
            return {
                self.text(str(name)): _each_string(_inner(value), _mark_like)
                if (is_node and name in _VALUES and not _is_wrapper(node)) or _PRIVATE_KEY.fullmatch(str(name))
                else self._copy(str(name), value, numbers=numbers)
                for name, value in node.items()
            }
        if isinstance(node, (list, tuple, set, frozenset)):
            items = [self._copy(key, item, numbers=numbers) for item in node]
            for at in _value_places(items):
                items[at] = _mark_like(items[at])
            return items
        if isinstance(node, (bool, type(None))):
            return node
        if isinstance(node, (int, float)):
            digits = f"{abs(node):.0f}"
            if numbers and len(digits) in range(5, 18) and _PHONE_KEY.fullmatch(key):
                return PHONE_MARK
            return CARD_MARK if numbers and len(digits) in range(13, 20) and luhn(digits) else node
        return str(node)

    def _in_lines(self, record: Any) -> Any:
        """Mask, in place, the private parts of a record's lines, and known values split over several strings."""
        found: dict[tuple[int, Any], list[Span]] = {}
        holders: dict[tuple[int, Any], Any] = {}

        def note(piece: Piece, spans: Iterable[Span]) -> None:
            place = (id(piece.holder), piece.key)
            holders[place] = piece.holder
            moved = [Span(one.start + piece.start, one.end + piece.start, one.mark) for one in spans]
            found.setdefault(place, []).extend(moved)

        lines = lines_of(record)
        for line in lines:
            for piece, spans in zip(line, self.line(line), strict=True):
                if spans:
                    note(piece, spans)
        for piece, start, end in self._split(lines):
            note(piece, [Span(start, end, REDACTED)])
        for place, spans in found.items():
            holder, key = holders[place], place[1]
            holder[key] = replaced(holder[key], merged(spans))
        return record

    def _split(self, lines: Iterable[Line]) -> Iterator[tuple[Piece, int, int]]:
        """Yield parts of known values that are split over all strings, those of one key, or every second list item."""
        secrets = (one for value in known_values() if len(one := _squeeze(value)) >= _WHOLE)
        values = tuple(dict.fromkeys((*self._squeezed, *secrets)))
        if not values:
            return
        strings = {(id(one.holder), one.key): one for line in lines for one in line}
        pieces = [one for at in strings.values() for one in pieces_of(at.holder, at.key, at.holder[at.key])]
        by_key: dict[str, list[Piece]] = {}
        for piece in pieces:
            by_key.setdefault(str(piece.key) if isinstance(piece.holder, dict) else "", []).append(piece)
        alternating = [one for one in pieces if isinstance(one.holder, list) and one.key % 2]
        for chosen in (pieces, *by_key.values(), alternating):
            yield from _split_over(chosen, values)


def _split_over(pieces: Sequence[Piece], values: Iterable[str]) -> Iterator[tuple[Piece, int, int]]:
    """Yield the parts of neighboring pieces that together contain a value.

    A value of letters or digits alone is found only in pieces that contain nothing else, because neighboring words and
    numbers form such values by chance.
    """
    squeezed = [_squeeze(piece.text) for piece in pieces]
    text, starts = "".join(squeezed), [0]
    for one in squeezed:
        starts.append(starts[-1] + len(one))
    edges = frozenset(starts)
    for value in values:
        mixed = any(map(str.isalpha, value)) and not value.isalpha()
        at = text.find(value)
        while at >= 0:
            end = at + len(value)
            first = bisect_right(starts, at) - 1
            last = bisect_left(starts, end) - 1
            whole = at in edges and end in edges and (not value.isdigit() or last - first < len(value) // 2)
            if last > first and (mixed or whole):
                for number in range(first, last + 1):
                    left, right = max(at - starts[number], 0), min(end - starts[number], len(squeezed[number]))
                    if left < right:
                        yield (pieces[number], *_unsqueezed(pieces[number].text, left, right))
            at = text.find(value, at + 1)


def _unsqueezed(text: str, start: int, end: int) -> tuple[int, int]:
    """Convert a range of a text without whitespace to the range in the original text."""
    places = [at for at, char in enumerate(text) for _ in _squeeze(char)]
    return places[start], places[end - 1] + 1


def _within_quotes(found: re.Match[str], group: int) -> Span:
    bare = found[group].strip("\"'")
    start = found.start(group) + found[group].find(bare)
    return Span(start, start + len(bare), VALUE_MARK)


def _fields_in(text: str) -> Iterator[tuple[re.Pattern[str], int]]:
    """Yield patterns for fields in a snapshot given as text, each with the group of the value."""
    if "<" in text and ">" in text:
        yield from ((_MARKUP_VALUE, 2), (_TEXTAREA, 2), (_EDITABLE, 3))
    if "value=" in text:
        yield _OUTLINE_VALUE, 2
    if ": " in text and "- " in text:
        yield _ARIA_VALUE, 2


def _field_values(node: Any) -> Iterator[str]:
    """Yield the values of text fields in a snapshot, but not those of buttons, boxes and options."""
    if isinstance(node, str):
        for pattern, group in _fields_in(node):
            for found in pattern.finditer(node):
                if pattern is not _MARKUP_VALUE or _is_text_field(found[1]):
                    yield found[group].strip("\"'")
    elif isinstance(node, dict):
        if calls(node):
            yield from (found[0] for found in PHONE.finditer(calls(node)))
        if not _NODE.isdisjoint(node) and not _is_wrapper(node) and _takes_text(node):
            for key in _VALUES & node.keys():
                yield from _strings(_inner(node[key]))
        for key, value in node.items():
            if _PRIVATE_KEY.fullmatch(str(key)):
                yield from _strings(_inner(value))
            yield from _field_values(value)
    elif isinstance(node, (list, tuple)):
        for at in _value_places(list(node)):
            yield node[at]
        for item in node:
            yield from _field_values(item)


def _is_text_field(markup: str) -> bool:
    return not re.search(
        r"^<(?!input)|\btype\s*=\s*[\"']?(?:submit|button|reset|checkbox|radio|image|range|color)",
        markup,
        re.IGNORECASE,
    )


def _takes_text(node: Mapping[str, Any]) -> bool:
    kind = node.get("role") or node.get("localName") or node.get("tag") or node.get("tagName") or node.get("nodeName")
    kind = kind.get("value") if isinstance(kind, dict) else kind
    return not re.fullmatch(
        r"button|checkbox|radio|option|listitem|li|switch|progressbar|meter|slider|param|data", str(kind or "").lower()
    )


def _is_wrapper(node: Mapping[str, Any]) -> bool:
    """Whether a node is a `{type, value}` object of DevTools, which wraps a role, a name or a value."""
    return node.keys() <= {"type", "value", "sources", "relatedNodes"} and node.get("type") in _WRAPPED


def _inner(value: Any) -> Any:
    return value["value"] if isinstance(value, dict) and _is_wrapper(value) and "value" in value else value


def _value_places(items: list[Any]) -> list[int]:
    """Return the indexes of `value` attributes' values in a flat list of attribute names and values."""
    if len(items) % 2 or not items or not all(isinstance(item, str) for item in items):
        return []
    return [at + 1 for at in range(0, len(items), 2) if items[at] == "value"]


def _mark_like(value: str) -> str:
    """Replace a value by its mark, within its quotes. An empty value is left unchanged."""
    bare = value.strip("\"'")
    return value if not bare else value.replace(bare, VALUE_MARK)


def _loosely(value: str) -> str:
    if len(value) < _WHOLE:
        return rf"(?<![0-9A-Za-z]){re.escape(value)}(?![0-9A-Za-z])"
    digits = re.sub(_GROUPING, "", value)
    number = _INTERNATIONAL.fullmatch(digits) if is_phone(value) else None
    if number:  # a phone number, with any prefix or none
        country = number["country"] or "[0-9]{1,3}"
        prefix = rf"(?:\+|00){_GROUPING}{country}{_GROUPING}(?:0{_GROUPING})?|0{_GROUPING}"
        return rf"(?<![0-9])\(?(?:{prefix})?{_GROUPING.join(number['national'])}(?![0-9])"
    if len(digits) > _WHOLE and digits.removeprefix("+").isdigit():
        return _GROUPING.join(map(re.escape, digits))  # a number, grouped in any way
    return r"[\s\u200b-\u200d\u00ad\u2060\ufeff]*".join(re.escape(char) for char in value if not char.isspace())


def _squeeze(text: str) -> str:
    return _BLANK.sub("", text).lower()


def _strings(node: Any) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    elif isinstance(node, dict):
        for value in node.values():
            yield from _strings(value)
    elif isinstance(node, (list, tuple, set, frozenset)):
        for item in node:
            yield from _strings(item)
    elif isinstance(node, (int, float)) and not isinstance(node, bool):
        yield str(node)


def _each_string(node: Any, change: Callable[[str], str]) -> Any:
    """Apply a function to all strings in plain data except keys. A number is replaced only if its text changes."""
    if isinstance(node, str):
        return change(node)
    if isinstance(node, dict):
        return {key: _each_string(value, change) for key, value in node.items()}
    if isinstance(node, (list, tuple)):
        return [_each_string(item, change) for item in node]
    if isinstance(node, (int, float)) and not isinstance(node, bool):
        text = str(node)
        return node if (changed := change(text)) == text else changed
    return node
