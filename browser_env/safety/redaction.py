"""Redacts in full: what a log may hold of pages, arguments and errors. Works on plain data, and touches no browser.

Beside the secrets of this process's environments it takes out what is private by its place (values of fields, query
values) or by its look (`private_text`), and whatever was once seen as a field's value, wherever it turns up later.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from selfsurf.browser_env.safety.private_text import (
    CARD_MARK,
    EMAIL_MARK,
    NAMED,
    REDACTED,
    TOKEN_MARK,
    decoded,
    luhn,
    mask_private,
)
from selfsurf.browser_env.safety.secrets import known_values, redact_known

VALUE_MARK = "<value>"
"""Stands for what is or was in a field."""

_TYPED = frozenset({"text", "value", "answer", "variables", "password", "files", "content"})
"""Arguments that hold what is entered."""
_VALUES = frozenset({"value", "valuetext", "valueText", "inputValue", "defaultValue", "currentValue", "aria-valuetext"})
"""Keys of a node under which a page's snapshot has what a field holds."""
_NODE = frozenset({"role", "tag", "tagName", "nodeName", "localName", "nodeType", "name", "type"})
_WRAPPED = frozenset({
    "boolean", "tristate", "booleanOrUndefined", "idref", "idrefList", "integer", "node", "nodeList", "number",
    "string",
    "computedString", "token", "tokenList", "domRelation", "role", "internalRole", "valueUndefined",
})  # fmt: skip
"""`Accessibility.AXValueType` of DevTools."""
_FIELD_ROLES = "textbox|searchbox|combobox|spinbutton|slider|textarea|input"
_PRIVATE_KEY = re.compile(rf"(?:.*[-_ ])?{NAMED}", re.IGNORECASE)
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
_PIECE = re.compile(r"\"([^\"]*)\"|'([^']*)'|>([^<>]+)<|^([^<>]+)<|>([^<>]+)$")
_WORD = re.compile(r"[^\s\"'<>]{6,}")
_SEGMENT = re.compile(r"[^<>\"']{6,}")
"""What may hold an encoded value with blanks in it."""
_ENCODED = re.compile(r"&[#a-zA-Z]|\\[ux\\]|%[0-9a-fA-F]|=[0-9A-F]{2}")
_BLANK = re.compile(r"[\s\u200b\u200c\u200d\u00ad\u2060\ufeff]+")
_WHOLE = 6
"""Values shorter than this are found as whole words only, and not when split or encoded."""
_SHORTEST = 3
_LONGEST = 200
"""Longer lines are masked in pieces of so many characters."""
_REPEATED = 64
"""Texts up to this length are remembered with what became of them."""
_REMEMBERED = 50_000


MASKS = (EMAIL_MARK, CARD_MARK, TOKEN_MARK, REDACTED)
"""What `masked` leaves where it has masked something but a known secret."""


def masked(text: str) -> str:
    """Return a text without secrets of this process's environments and what looks private.

    Doing it twice changes nothing.
    """
    return mask_private(str(redact_known(text)))


class Redactor:
    """Redacts records, and remembers the values it has met. May be shared by threads.

    Args:
        private: texts that are private whatever they look like.
    """

    def __init__(self, private: Iterable[str] = ()) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, None] = {}
        self._pattern: re.Pattern[str] | None = None
        self._squeezed: tuple[str, ...] = ()
        self._known: dict[str, str] = {}
        self.learn(private)

    def learn(self, values: Iterable[str]) -> None:
        """Mask these values from now on, wherever they stand. Those under 3 characters are ignored."""
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
            self._known = {}

    def learn_from(self, *snapshots: Any) -> None:
        """Learn the values of the fields in snapshots of a page: trees, markup, outlines."""
        self.learn(value for snapshot in snapshots for value in _field_values(snapshot))

    def learn_arguments(self, arguments: Mapping[str, Any]) -> None:
        """Learn what the arguments of a call want to have entered."""
        typed: list[str] = []
        for key, value in arguments.items():
            typed += _strings(value) if key in _TYPED or _PRIVATE_KEY.fullmatch(key) else []
            if isinstance(value, dict):
                self.learn_arguments(value)
            elif isinstance(value, str):
                typed += [next(filter(None, found.groups())) for found in _ENTERED.finditer(value)]
        self.learn(typed)

    def arguments(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call as a log may hold them: what is entered is masked whatever it is."""
        self.learn_arguments(arguments)
        redacted = {}
        for key, value in arguments.items():
            if key in _TYPED or _PRIVATE_KEY.fullmatch(key):
                redacted[self.text(key)] = _each_string(value, lambda _: VALUE_MARK)
            else:
                redacted[self.text(key)] = self.arguments(value) if isinstance(value, dict) else self.record(value)
        return redacted

    def record(self, record: Any) -> Any:
        """Return plain data without what is private in it, also where a value is split over several of its strings."""
        return self._without_split(self._masked(record))

    def text(self, text: str) -> str:
        """Return a text without what is private in it."""
        return self._once(text, self._text) if len(text) <= _REPEATED else self._text(text)

    def _once(self, text: str, redact: Callable[[str], str]) -> str:
        """Redact what was met before without looking again: trees repeat their words."""
        known = self._known  # another one once something was learned
        if (found := known.get(text)) is None:
            found = redact(text)
            if len(known) < _REMEMBERED:
                known[text] = found
        return found

    def _text(self, text: str) -> str:
        text = self._plain(redact_known(text))
        for pattern, group in _fields_in(text):
            text = pattern.sub(lambda found, group=group: found[1] + _mark_like(found[group]), text)  # type: ignore[misc]
        text = mask_private(text)
        text = _WORD.sub(lambda found: self._once(found[0], self._word), text)
        if _ENCODED.search(text):
            text = _SEGMENT.sub(lambda found: self._word(found[0]) if _ENCODED.search(found[0]) else found[0], text)
        return text

    def _plain(self, text: str) -> str:
        return self._pattern.sub(VALUE_MARK, text) if self._pattern is not None else text

    def _word(self, word: str) -> str:
        """Mask a word that says something private once it is decoded."""
        for said in decoded(word):
            if mask_private(said) != said or redact_known(said) != said or self._holds(said):
                return REDACTED
        return word

    def _holds(self, text: str) -> bool:
        if self._pattern is not None and self._pattern.search(text):
            return True
        squeezed = _squeeze(text)
        return any(value in squeezed for value in self._squeezed)

    def _masked(self, node: Any) -> Any:
        if isinstance(node, str):
            return self.text(node)
        if isinstance(node, dict):
            is_node = not _NODE.isdisjoint(node)
            return {
                self.text(str(key)): _each_string(_inner(value), _mark_like)
                if (is_node and key in _VALUES and not _is_wrapper(node)) or _PRIVATE_KEY.fullmatch(str(key))
                else self._masked(value)
                for key, value in node.items()
            }
        if isinstance(node, (list, tuple, set, frozenset)):
            items = [self._masked(item) for item in node]
            for at in _value_places(items):
                items[at] = _mark_like(items[at])
            return items
        if isinstance(node, (bool, float, type(None))):
            return node
        if isinstance(node, int):
            return CARD_MARK if len(str(abs(node))) in range(13, 20) and luhn(str(node)) else node
        return self.text(str(node))

    def _without_split(self, record: Any) -> Any:
        """Mask a value's pieces in neighbouring strings: all of them, those of one key, a list's every second one."""
        touched: set[str] = set()
        by_key: dict[str, list[str]] = {}
        secrets = tuple(one for value in known_values() if len(one := _squeeze(value)) >= _WHOLE)
        values = tuple(dict.fromkeys((*self._squeezed, *secrets)))
        _gather(record, "", by_key)
        for chosen in (list(_strings(record)), *by_key.values(), *_alternating(record)):
            touched |= _split_over([piece for text in chosen for piece in _pieces(text)], values)
        if not touched:
            return record
        pattern = re.compile("|".join(re.escape(one) for one in sorted(touched, key=len, reverse=True)))
        return _each_string(record, lambda text: pattern.sub(REDACTED, text))


def _split_over(pieces: list[str], values: tuple[str, ...]) -> set[str]:
    """Return the pieces that hold a value, a card's number or an e-mail address jointly with their neighbours."""
    squeezed = [_squeeze(piece) for piece in pieces]
    joined, starts = "".join(squeezed), []
    length = 0
    for one in squeezed:
        starts.append(length)
        length += len(one)
    touched: set[str] = set()
    for value in values:
        at = joined.find(value)
        while at >= 0:
            for number, start in enumerate(starts):
                if start < at + len(value) and start + len(squeezed[number]) > at and squeezed[number]:
                    touched.add(pieces[number])
            at = joined.find(value, at + 1)
    groups = [(n, one) for n, one in enumerate(squeezed) if re.fullmatch(r"[0-9]{2,10}", one)]
    for first in range(len(groups)):
        digits = ""
        for last in range(first, min(first + 5, len(groups))):
            digits += groups[last][1]
            if last > first and 13 <= len(digits) <= 19 and luhn(digits):
                touched |= {pieces[n] for n, _ in groups[first : last + 1]}
    for n, one in enumerate(pieces):
        if "@" in one and EMAIL_MARK not in one:
            around = "".join(piece.strip() for piece in pieces[max(0, n - 1) : n + 2])
            if mask_private(around) != around and EMAIL_MARK in mask_private(around):
                touched |= set(pieces[max(0, n - 1) : n + 2])
    return {piece for piece in touched if piece.strip() and not re.fullmatch(r"<[a-z:]+>", piece)}


def _pieces(text: str) -> list[str]:
    """Return a markup's attributes and texts, in order; of any other text the whole."""
    if "<" not in text or ">" not in text:
        return [text]
    return [piece for found in _PIECE.finditer(text) if (piece := next(filter(None, found.groups()), ""))]


def _gather(node: Any, key: str, by_key: dict[str, list[str]]) -> None:
    """Collect the strings under each key, in the order of the page."""
    node = _inner(node)
    if isinstance(node, str):
        by_key.setdefault(key, []).append(node)
    elif isinstance(node, dict):
        for name, value in node.items():
            _gather(value, name, by_key)
    elif isinstance(node, list):
        for item in node:
            _gather(item, key, by_key)


def _alternating(node: Any) -> Iterator[list[str]]:
    """Yield the values of flat lists of names and values, as DevTools has a node's attributes."""
    if isinstance(node, dict):
        for value in node.values():
            yield from _alternating(value)
    elif isinstance(node, list):
        if len(node) >= 4 and len(node) % 2 == 0 and all(isinstance(item, str) for item in node):
            yield node[1::2]
        else:
            for item in node:
                yield from _alternating(item)


def _fields_in(text: str) -> Iterator[tuple[re.Pattern[str], int]]:
    """Yield the patterns by which a snapshot in one text may show fields, and the group with the value."""
    if "<" in text and ">" in text:
        yield from ((_MARKUP_VALUE, 2), (_TEXTAREA, 2), (_EDITABLE, 3))
    if "value=" in text:
        yield _OUTLINE_VALUE, 2
    if ": " in text and "- " in text:
        yield _ARIA_VALUE, 2


def _field_values(node: Any) -> Iterator[str]:
    """Yield the values of text fields in a snapshot; of buttons, boxes and options they are what the page offers."""
    if isinstance(node, str):
        for pattern, group in _fields_in(node):
            for found in pattern.finditer(node):
                if pattern is not _MARKUP_VALUE or _is_text_field(found[1]):
                    yield found[group].strip("\"'")
    elif isinstance(node, dict):
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
    """Is it a `{type, value}` of DevTools, which wraps a role or a name as well as a value?"""
    return node.keys() <= {"type", "value", "sources", "relatedNodes"} and node.get("type") in _WRAPPED


def _inner(value: Any) -> Any:
    return value["value"] if isinstance(value, dict) and _is_wrapper(value) and "value" in value else value


def _value_places(items: list[Any]) -> list[int]:
    """Return where a flat list of attributes' names and values has the one of `value`."""
    if len(items) % 2 or not items or not all(isinstance(item, str) for item in items):
        return []
    return [at + 1 for at in range(0, len(items), 2) if items[at] == "value"]


def _mark_like(value: str) -> str:
    """Return the mark of a value, within the quotes it had; nothing stays nothing."""
    bare = value.strip("\"'")
    return value if not bare else value.replace(bare, VALUE_MARK)


def _loosely(value: str) -> str:
    if len(value) < _WHOLE:
        return rf"(?<![0-9A-Za-z]){re.escape(value)}(?![0-9A-Za-z])"
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
    """Change every string in plain data, and no key; a number only if its text changes."""
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
