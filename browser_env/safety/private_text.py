"""Recognition of private data in texts by patterns, independent of known secrets and also inside encodings.

This module is independent of pages, files and vaults. Logs, snapshots and the boxes of screenshots all use
`Masking.look`.
"""

from __future__ import annotations

import base64
import binascii
import html
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple
from urllib.parse import unquote

from selfsurf.browser_env.safety.numbers import cards, ibans

SOFT = "\x1f"
"""Separator in a line between the texts of neighboring elements, where a page may or may not show a gap."""

_EMAIL = re.compile(rf"[A-Za-z0-9._%+'-]+{SOFT}?@{SOFT}?[A-Za-z0-9-]+(?:{SOFT}?\.[A-Za-z0-9-]+)+")
_TOKEN = re.compile(
    "|".join(
        (
            # a JSON web token
            rf"eyJ[A-Za-z0-9_-]{{6,}}{SOFT}?\.{SOFT}?[A-Za-z0-9_-]{{6,}}(?:{SOFT}?\.{SOFT}?[A-Za-z0-9_-]*)?",
            r"(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}",
            r"gh[a-z]_[A-Za-z0-9]{20,}",
            r"github_pat_[A-Za-z0-9_]{20,}",
            r"xox[a-z]-[A-Za-z0-9-]{10,}",
            r"(?:AKIA|ASIA)[A-Z0-9]{16}",
            r"AIza[A-Za-z0-9_-]{30,}",
            r"hf_[A-Za-z0-9]{20,}",
            r"nvapi-[A-Za-z0-9_-]{20,}",
        )
    )
)
"""Patterns of tokens and API keys with a recognizable format."""
NAMED = (
    r"(?:pass(?:word|wd|phrase|code)?|pwd|secret|token|api[-_ ]?key|access[-_ ]?key|authorization|auth"
    r"|session(?:[-_ ]?id)?|set-cookie|cookie|otp|pin|cvv|cvc|iban|ssn)"
)
"""Pattern of names that are followed by a private value."""
NAMED_PHONE = (
    r"(?:(?:tele)?phone|t[eé]l(?:[eé](?:fon[oe]?|foon|phone)?)?|mobile?|m[oó]vil|handy|cell(?:phone)?|celular|cellulare"
    r"|portable|natel|fax|gsm|rufnummer|whatsapp|viber|телефон|тел|电话|電話|手机)"
    r"(?:[-_ ]?(?:number|nummer|n[úu]mero|no|nr|num))?"
)
"""Pattern of phone labels such as "mobile", which precede a phone number."""
CALLS = re.compile(r"(?:tel|sms|smsto|callto|facetime):", re.IGNORECASE)
"""URL schemes of phone numbers."""
PHONE = re.compile(rf"(?:\+|%2[Bb]|00)?\(?[0-9](?:[ \u00a0\u2007\u202f\u2010-\u2013{SOFT}().,/-]{{0,4}}[0-9]){{4,16}}")
"""Pattern of a phone number, for places where other evidence indicates one."""

_NAMED_VALUE = re.compile(
    rf"(?<![A-Za-z<]){NAMED}(?:\\?[\"'])?\s*(?:=|:(?!//))\s*(?:\\?[\"'])?(?:(?:Bearer|Basic)\s+|(?!(?:Bearer|Basic)\s))([^\s\"',;&<>]{{3,}})",
    re.IGNORECASE,
)
PHONE_NAME = re.compile(rf"(?:\w+[ -])?{NAMED_PHONE}(?:\s*\([^()]*\))?[\s.:\uff1a*]*", re.IGNORECASE)
"""Pattern of a line that consists of a phone label such as "Mobile:"."""
_PHONE_NAME_BEFORE = re.compile(
    rf"(?<![A-Za-z]){NAMED_PHONE}\.?(?:\s*\([^()\n]{{1,20}}\))?"
    rf"(?:(?P<sign>(?:\\?[\"'])?\s*[:=\uff1a]\s*(?:\\?[\"'])?)|\s+)$", re.IGNORECASE,
)  # fmt: skip
_DIALLED = re.compile(r"[+0(]|[0-9]{3}[ .-][0-9]{3}[ .-][0-9]{4}$")
"""Pattern of numbers that look like phone numbers on their own: an international or trunk prefix, or American groups.
"""
_OTHER_NUMBER = re.compile(
    r"[0-9]{4}([./-])[0-9]{1,2}\1[0-9]{1,2}|[0-9]{1,2}([./-])[0-9]{1,2}\2[0-9]{4}"  # dates
    r"|[1-9][0-9]{0,2}(?:[.,][0-9]{3})+(?:[.,][0-9]+)?|[0-9]+[.,][0-9]+"  # amounts
    r"|[0-9]{1,3}(?:\.[0-9]{1,3}){3}"  # IP addresses
)
_CALL = re.compile(rf"(?<![A-Za-z]){CALLS.pattern}(?://)?\s*({PHONE.pattern}|[+*#0-9][*#0-9.-]+)", re.IGNORECASE)
_CALL_LINK = re.compile(
    rf"<a\b[^>]*\bhref\s*=\s*[\"']?{CALLS.pattern}[^>]*>(.*?)(?=</a\s*>|$)", re.IGNORECASE | re.DOTALL
)
_BEARER = re.compile(r"\b(?:Bearer|Basic)\s+([A-Za-z0-9._~+/=-]{8,})")
_QUERY = re.compile(r"[?&;](?:amp;)?[A-Za-z0-9_.\-\[\]%]{1,64}=([^&;\s\"'<>#]+)")
_URL = re.compile(
    r"\b[a-z][a-z0-9+.-]*://(?P<user>[^\s\"'<>/?#]*@)?(?P<host>\[[^\s\"'<>\]]*\](?::[0-9]+)?|[^\s\"'<>/?#\\@]*)"
    r"(?P<path>[^\s\"'<>?#]*)(?:\?(?P<query>[^\s\"'<>#]*))?(?:#(?P<fragment>[^\s\"'<>]*))?",
    re.IGNORECASE,
)
_PAIR = re.compile(r"&amp;|&")
_CLOSING = ".,;:!?)]}"
"""Characters at the end of a URL that belong to the surrounding sentence."""
_DATA = re.compile(r"\bdata:[\w/+.-]*(?:;[\w=;.-]*)?,([^\s\"'<>)]*)", re.IGNORECASE)
_RANDOM = re.compile(r"(?<![A-Za-z0-9_+/-])[A-Za-z0-9_+/-]{24,}={0,2}")
_PLAIN_PATH = re.compile(r"/|(?:xn--[a-z0-9-]+|[A-Za-z]{1,20}(?:[-_][A-Za-z]{1,20})*|v?[0-9]{1,6})/")
"""Pattern of a path's beginning before a token: directories named by words and numbers."""

REDACTED = "<redacted>"
EMAIL_MARK, CARD_MARK, TOKEN_MARK, IBAN_MARK, PHONE_MARK = "<email>", "<card>", "<token>", "<iban>", "<phone>"


class Span(NamedTuple):
    """A private part of a text, and the mark that replaces it."""

    start: int
    end: int
    mark: str


class Masking:
    """A collector of a text's private parts, rule by rule. Later rules don't see the parts found by earlier ones.

    Attributes:
        rest: the text as seen by later rules, of the same length, with the parts found replaced by `<<<>`.
    """

    def __init__(self, text: str) -> None:
        self.text = self.rest = text
        self._spans: list[Span] = []

    def hide(self, spans: Iterable[Span]) -> None:
        """Add private parts."""
        if new := [span for span in spans if span.start < span.end]:
            self._spans += new
            self._fill((span.start, span.end) for span in new)

    def keep(self, places: Iterable[tuple[int, int]]) -> None:
        """Protect parts of the text from all later rules."""
        self._fill(places)

    def each(self, pattern: re.Pattern[str], mark: str, group: int = 0) -> None:
        """Hide a group of each match of a pattern."""
        self.hide([Span(*found.span(group), mark) for found in pattern.finditer(self.rest)])

    def _fill(self, places: Iterable[tuple[int, int]]) -> None:
        parts: list[str] = []
        at = 0
        for start, end in sorted(places):
            if end > max(at, start):
                start = max(at, start)
                parts += self.rest[at:start], "<" * (end - start - 1), ">"
                at = end
        if parts:
            self.rest = "".join(parts) + self.rest[at:]

    def addresses(self) -> None:
        """Hide users, passwords, query values and fragments of URLs, and keep scheme, host and port."""
        urls = [*_URL.finditer(self.rest)] if "://" in self.rest else []
        self.hide(_in_addresses(urls))
        kept = []
        for found in urls:
            if found["user"]:
                self.hide([Span(found.start("user"), found.end("user") - 1, REDACTED)])
            kept += [(found.start(), found.start("user") if found["user"] else found.end("host"))]
            kept += [(found.start("host"), found.end("host"))]
        self.keep(kept)

    def look(self) -> None:
        """Hide everything that looks private, such as credentials in URLs, named values, email addresses and tokens."""
        if ":" in self.rest or "=" in self.rest:
            self.each(_DATA, REDACTED, 1)
            self.addresses()
            # before the named values, so that the whole IBAN after a name is hidden
            self.hide(Span(*place, IBAN_MARK) for place in ibans(self.rest))
            self.each(_CALL, PHONE_MARK, 1)
            self.each(_QUERY, REDACTED, 1)
            self.each(_NAMED_VALUE, REDACTED, 1)
            if "<a" in self.text:
                for link in _CALL_LINK.finditer(self.text):
                    self.hide(calls_in(self.rest, *link.span(1)))
        self.hide(_named_numbers(self.rest))
        self.each(_BEARER, TOKEN_MARK, 1)
        if "@" in self.rest:
            self.each(_EMAIL, EMAIL_MARK)
        self.hide(Span(*place, IBAN_MARK) for place in ibans(self.rest))
        self.hide(Span(*place, CARD_MARK) for place in cards(self.rest))
        self.each(_TOKEN, TOKEN_MARK)
        self.hide([Span(*place, TOKEN_MARK) for found in _RANDOM.finditer(self.rest) if (place := _random_part(found))])

    def spans(self) -> list[Span]:
        """Return the private parts found, in order."""
        return merged(self._spans)


def merged(spans: Iterable[Span]) -> list[Span]:
    """Return spans in order, with overlapping ones merged under the mark of the longest."""
    out: list[Span] = []
    for span in sorted(spans, key=lambda one: (one.start, -one.end)):
        if out and span.start < out[-1].end:
            last = out[-1]
            mark = last.mark if last.end - last.start >= span.end - span.start else span.mark
            out[-1] = Span(last.start, max(last.end, span.end), mark)
        else:
            out.append(span)
    return out


def replaced(text: str, spans: Iterable[Span]) -> str:
    """Replace the private parts of a text, given in order, by their marks."""
    parts: list[str] = []
    at = 0
    for start, end, mark in spans:
        parts += text[at:start], mark
        at = end
    return "".join(parts) + text[at:]


def mask_private(text: str) -> str:
    """Mask credentials and query values of URLs, named values, email addresses, cards, accounts and tokens."""
    masking = Masking(text)
    masking.look()
    return replaced(text, masking.spans())


def calls_in(text: str, start: int, end: int) -> list[Span]:
    """Return the phone numbers in a part of a text that is a link to a phone number."""
    found = [Span(*found.span(), PHONE_MARK) for found in PHONE.finditer(text, start, end)]
    return found or [Span(*found.span(), PHONE_MARK) for found in re.compile("[0-9]{3,}").finditer(text, start, end)]


def is_phone(text: str) -> bool:
    """Whether a text is a phone number: 7 to 15 digits that are not a date, an amount or an IP address."""
    digits = sum(map(str.isdigit, text))
    return 7 <= digits <= 15 and bool(PHONE.fullmatch(text)) and not _OTHER_NUMBER.fullmatch(text)


def _named_numbers(text: str) -> Iterator[Span]:
    """Yield phone numbers after a phone label; without a colon or equals sign, only those in dialing format."""
    for found in PHONE.finditer(text):
        name = _PHONE_NAME_BEFORE.search(text, max(0, found.start() - 60), found.start())
        if name is None or text[found.end() : found.end() + 1].isdigit():
            continue
        if name["sign"] or (_DIALLED.match(found[0]) and is_phone(found[0])):
            yield Span(*found.span(), PHONE_MARK)


def _in_addresses(urls: Iterable[re.Match[str]]) -> Iterator[Span]:
    """Yield the values in the queries and fragments of URLs."""
    for found in urls:
        if query := found["query"]:
            at = found.start("query")
            closed = at + len(query if found["fragment"] is not None else query.rstrip(_CLOSING))
            for pair in _PAIR.split(query):
                name, equals, _ = pair.partition("=")
                start = at + len(name) + 1 if equals else at
                yield Span(start, min(at + len(pair), closed), REDACTED)
                at += len(pair) + len((_PAIR.match(query, at + len(pair) - found.start("query")) or [""])[0])
        fragment = (found["fragment"] or "").rstrip(_CLOSING)
        # otherwise the fragment is the name of a heading or a view
        if not re.fullmatch(r"[!/]?[A-Za-z][A-Za-z/-]{0,40}", fragment):
            yield Span(found.start("fragment"), found.start("fragment") + len(fragment), REDACTED)


def _random_part(found: re.Match[str]) -> tuple[int, int] | None:
    """Return the range of a match that looks like a key, without leading directory names; otherwise None."""
    start, end = found.span()
    while plain := _PLAIN_PATH.match(found.string, start, end):
        start = plain.end()
    return (start, end) if end - start >= 24 and _looks_random(found.string[start:end]) else None


def _looks_random(text: str) -> bool:
    """Whether a long string looks like a key: digits and letters that alternate often, unlike in names and words."""
    core = text.rstrip("=")
    kinds = [0 if char.isdigit() else 1 if char.islower() else 2 if char.isupper() else 3 for char in core]
    if 0 not in kinds or not ({1, 2} & set(kinds)):
        return False
    changes = sum(a != b for a, b in pairwise(kinds))
    return changes / len(core) >= 0.25


_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]{2,8});")
_UNICODE = re.compile(r"\\+(?:u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([0-7]{3}))")
_PERCENT_U = re.compile(r"%u([0-9a-fA-F]{4})")
_CSS = re.compile(r"\\([0-9a-fA-F]{1,6})[ \t]?")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{8,}={0,2}")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2}[:\- ]?){6,}")
_QUOTED_PRINTABLE = re.compile(r"=([0-9A-F]{2})")


def decoded(text: str, depth: int = 3) -> Iterator[str]:
    """Yield a text's decoded forms, also of nested encodings up to a depth.

    Encodings: percent (also `%uXXXX`), HTML entities, escapes of JSON, JavaScript and CSS, quoted-printable, base64 in
    both alphabets at any offset, and hexadecimal.
    """
    seen, layer = {text}, [text]
    for _ in range(depth):
        layer = [new for one in layer for new in _undone(one) if new not in seen and not seen.add(new)]  # type: ignore[func-returns-value]
        if not layer:
            return
        yield from layer


def _undone(text: str) -> Iterator[str]:
    if "%" in text:
        yield unquote(_PERCENT_U.sub(_char, text), errors="replace")
        if "+" in text:
            yield unquote(text.replace("+", " "), errors="replace")
    if "&" in text and _ENTITY.search(text):
        yield html.unescape(text)
    if "\\" in text:
        yield re.sub(r"\\([\"'/\\])", r"\1", _UNICODE.sub(_char, text))
        if not _UNICODE.search(text):
            yield _CSS.sub(_char, text)
    if "=" in text and _QUOTED_PRINTABLE.search(text):
        yield _QUOTED_PRINTABLE.sub(_char, text)
    for found in _BASE64.finditer(text):
        yield from _from_base64(found[0].rstrip("="))
    for found in _HEX.finditer(text):
        yield from _readable(bytes.fromhex(re.sub(r"[:\- ]", "", found[0])))


def _char(found: re.Match[str]) -> str:
    digits = next(group for group in found.groups() if group is not None)
    octal = len(found.groups()) == 4 and found[4] is not None
    code = int(digits, 8 if octal else 16)
    return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else found[0]


def _from_base64(text: str) -> Iterator[str]:
    if text.isalpha() and (text.islower() or text.istitle()):  # a word
        return
    text = text.replace("-", "+").replace("_", "/")
    for start in range(4):  # an encoded value may start anywhere in a group of four
        part = text[start:]
        try:
            data = base64.b64decode(part[: len(part) - (len(part) % 4 == 1)] + "=" * (-len(part) % 4 % 3))
        except (binascii.Error, ValueError):
            continue
        yield from _readable(data)


def _readable(data: bytes) -> Iterator[str]:
    """Yield decoded bytes as text if they are mostly readable; otherwise they were not an encoded text."""
    for encoding in ("utf-8", "utf-16-le") if b"\0" in data else ("utf-8",):
        text = data.decode(encoding, errors="replace")
        if text and (text.isprintable() or sum(map(str.isprintable, text)) - text.count("\ufffd") >= 0.7 * len(text)):
            yield text
