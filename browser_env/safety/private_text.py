"""What counts as private in a text, whatever secrets are known: patterns, and the encodings a text may be wrapped in.

Knows nothing of pages, files and vaults. The patterns are written in the syntax that Python and JavaScript share, since
the same ones find what a screenshot shows (`page/private_boxes.js`).
"""

from __future__ import annotations

import base64
import binascii
import html
import re
from collections.abc import Iterator
from itertools import pairwise
from urllib.parse import unquote

EMAIL = r"[A-Za-z0-9._%+'-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+"
CARD = r"(?:[0-9][ \u00a0\u2007\u202f.-]?){12,18}[0-9]"
"""A run of 13 to 19 digits, grouped or not; a card's number if `luhn` holds."""
TOKENS = (
    r"eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*)?",  # JSON web token
    r"(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}",
    r"gh[a-z]_[A-Za-z0-9]{20,}",
    r"github_pat_[A-Za-z0-9_]{20,}",
    r"xox[a-z]-[A-Za-z0-9-]{10,}",
    r"(?:AKIA|ASIA)[A-Z0-9]{16}",
    r"AIza[A-Za-z0-9_-]{30,}",
    r"hf_[A-Za-z0-9]{20,}",
    r"nvapi-[A-Za-z0-9_-]{20,}",
)
"""Keys that say what they are."""
SHOWN = (EMAIL, CARD, *TOKENS)
"""What is private wherever a page shows it."""
NAMED = (
    r"(?:pass(?:word|wd|phrase|code)?|pwd|secret|token|api[-_ ]?key|access[-_ ]?key|authorization|auth"
    r"|session(?:[-_ ]?id)?|set-cookie|cookie|otp|pin|cvv|cvc|iban|ssn)"
)
"""Names after which a value is private."""

_NAMED_VALUE = re.compile(
    rf"(?<![A-Za-z<])({NAMED}(?:\\?[\"'])?\s*(?:=|:(?!//))\s*(?:\\?[\"'])?(?:(?:Bearer|Basic)\s+)?)([^\s\"',;&<>]{{3,}})",
    re.IGNORECASE,
)
_BEARER = re.compile(r"\b((?:Bearer|Basic)\s+)([A-Za-z0-9._~+/=-]{8,})")
_QUERY = re.compile(r"([?&;](?:amp;)?[A-Za-z0-9_.\-\[\]%]{1,64}=)([^&;\s\"'<>#]+)")
_URL = re.compile(r"\b([a-z][a-z0-9+.-]*://)([^\s\"'<>]+)", re.IGNORECASE)
_DATA = re.compile(r"\bdata:([\w/+.-]*)(;[\w=;.-]*)?,[^\s\"'<>)]*", re.IGNORECASE)
_EMAIL, _CARD, _TOKEN = re.compile(EMAIL), re.compile(rf"(?<![0-9]){CARD}(?![0-9])"), re.compile("|".join(TOKENS))
_RANDOM = re.compile(r"(?<![A-Za-z0-9_+/-])[A-Za-z0-9_+/-]{24,}={0,2}")

REDACTED = "<redacted>"
EMAIL_MARK, CARD_MARK, TOKEN_MARK = "<email>", "<card>", "<token>"


def luhn(digits: str) -> bool:
    """Does a card's check digit fit? Of all numbers, one in ten does."""
    numbers = [int(char) for char in digits if char.isdigit()]
    if len(set(numbers)) == 1:
        return False
    doubled = [sum(divmod(2 * number, 10)) for number in numbers[-2::-2]]
    return (sum(numbers[-1::-2]) + sum(doubled)) % 10 == 0


def mask_private(text: str) -> str:
    """Mask URLs' credentials and query values, named values, e-mail addresses, cards' numbers and tokens in a text."""
    if ":" in text or "=" in text:
        text = _DATA.sub(lambda found: f"data:{found[1]}{found[2] or ''},{REDACTED}", text)
        text = _URL.sub(lambda found: found[1] + _masked_address(found[2]), text)
        text = _QUERY.sub(rf"\1{REDACTED}", text)
        text = _NAMED_VALUE.sub(lambda found: found[1] + _unless_masked(found[2]), text)
    text = _BEARER.sub(rf"\1{TOKEN_MARK}", text)
    if "@" in text:
        text = _EMAIL.sub(EMAIL_MARK, text)
    text = _CARD.sub(lambda found: CARD_MARK if luhn(found[0]) else found[0], text)
    text = _TOKEN.sub(TOKEN_MARK, text)
    return _RANDOM.sub(lambda found: TOKEN_MARK if _looks_random(found[0]) else found[0], text)


def _unless_masked(value: str) -> str:
    return value if value.startswith("<") else REDACTED


def _masked_address(rest: str) -> str:
    """Mask what follows a URL's `scheme://`: its user and password, query values and the values in its fragment."""
    rest, hash_, fragment = rest.partition("#")
    before, mark, query = rest.partition("?")
    host, slash, path = before.partition("/")
    if "@" in host:
        host = f"{REDACTED}@{host.rpartition('@')[2]}"
    if query:
        query = "&".join(_masked_pair(pair) for pair in re.split(r"&amp;|&", query))
    if not re.fullmatch(r"[!/]?[A-Za-z][A-Za-z/-]{0,40}", fragment):  # the name of a heading or a view
        fragment = fragment and REDACTED
    return host + slash + path + mark + query + hash_ + fragment


def _masked_pair(pair: str) -> str:
    name, equals, value = pair.partition("=")
    if not equals:
        return REDACTED
    return name + equals + (REDACTED if value else "")


def _looks_random(text: str) -> bool:
    """Does a long run look like a key: digits and letters that change kind often? Names and words don't."""
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
    """Yield what a text says when its encodings are undone, one within another, up to a depth.

    Percent (also `%uXXXX`), HTML entities, escapes of JSON, JavaScript and CSS, quoted-printable, base64 in both
    alphabets at any offset, and hexadecimal.
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
    for start in range(4):  # a value within something larger may begin anywhere in a group of four
        part = text[start:]
        try:
            data = base64.b64decode(part[: len(part) - (len(part) % 4 == 1)] + "=" * (-len(part) % 4 % 3))
        except (binascii.Error, ValueError):
            continue
        yield from _readable(data)


def _readable(data: bytes) -> Iterator[str]:
    """Yield bytes as a text if most of it can be read: something else was not an encoded text."""
    for encoding in ("utf-8", "utf-16-le") if b"\0" in data else ("utf-8",):
        text = data.decode(encoding, errors="replace")
        if text and (text.isprintable() or sum(map(str.isprintable, text)) - text.count("\ufffd") >= 0.7 * len(text)):
            yield text
