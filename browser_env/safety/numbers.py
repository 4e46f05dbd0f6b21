"""Recognition of payment card numbers, by digit groups and check digit, and of bank account numbers (IBAN)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_BLANKS = r"[ \u00a0\u2007\u202f\x1f]"  # \x1f is `private_text.SOFT`
_RUN = re.compile(rf"[0-9](?:{_BLANKS}{{0,4}}[.\u2010-\u2013-]?{_BLANKS}{{0,4}}[0-9]){{12,}}")
_GROUP = re.compile(r"[0-9]+")
_GROUP_IN_PIECES = re.compile(r"[0-9](?:\x1f?[0-9])*")
_GROUPED = re.compile(r"4 4 4 4(?: [123])?|4 4 4 [123]|4 6 [45]|4 3 3 3|4 4 5|4 5 6|8 8|6 1[03]|(?:1 ){12,18}1")
"""Group lengths in which people write card numbers."""
_ARTICLE = re.compile(r"\b(?:EAN|GTIN|ISBN|UPC)(?:-?1[0-4])?[\s:#\x1f]{0,3}$", re.IGNORECASE)
"""Pattern of names (EAN, ISBN) before article numbers, one in ten of which looks like a card number."""
_ISSUED = re.compile(
    r"4(?:[0-9]{12}|[0-9]{15}|[0-9]{18})|3[47][0-9]{13}|3(?:0[0-5]|[689][0-9])[0-9]{11}(?:[0-9]{2})?"
    r"|(?:2[2-7]|5[0-9])[0-9]{14}|(?:35|5[06-8]|6[0-9]|8[12])[0-9]{14,17}|9792[0-9]{12}"
)
"""Patterns of payment card numbers by issuer: leading digits and lengths."""

_LENGTHS = (
    "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 "
    "EE20 EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 "
    "IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 "
    "NL18 NO15 OM23 PK24 PL28 PS29 PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 "
    "SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30 "
)
_LENGTH = {one[:2]: int(one[2:]) for one in _LENGTHS.split()}
"""Number of characters of an IBAN, by country."""
_IBAN = re.compile(rf"(?<![A-Za-z0-9])([A-Za-z]{{2}})(?={_BLANKS}?[0-9]{_BLANKS}?[0-9])")
_NEXT = re.compile(rf"{_BLANKS}{{0,3}}-?([A-Za-z0-9])")
_FEWEST_DIGITS = 10
"""Minimum number of digits in an IBAN, whose letters only name the bank."""


def luhn(digits: str) -> bool:
    """Whether a card number's check digit fits. One in ten random numbers passes."""
    numbers = [int(char) for char in digits if char.isdigit()]
    if len(set(numbers)) == 1:
        return False
    doubled = [sum(divmod(2 * number, 10)) for number in numbers[-2::-2]]
    return (sum(numbers[-1::-2]) + sum(doubled)) % 10 == 0


def cards(text: str) -> Iterator[tuple[int, int]]:
    """Yield the positions of card numbers in a text: 13 to 19 digits, ungrouped or grouped as people write them."""
    for run in _RUN.finditer(text):
        for pattern in (_GROUP, _GROUP_IN_PIECES) if "\x1f" in run[0] else (_GROUP,):
            groups = [*pattern.finditer(text, *run.span())]
            first = 0
            while first < len(groups):
                last = _end_of_card(text, groups, first)
                named = _ARTICLE.search(text, 0, groups[first].start())
                if last is not None and not named and (last > first or pattern is _GROUP):
                    yield groups[first].start(), groups[last].end()
                first = first + 1 if last is None else last + 1


def _end_of_card(text: str, groups: Sequence[re.Match[str]], first: int) -> int | None:
    """Return the index of the last group of the longest card number that starts with the given group."""
    lengths, gaps, ends = "", set(), None
    digits = ""
    for last in range(first, len(groups)):
        group = groups[last][0].replace("\x1f", "")
        if last > first:
            gap = text[groups[last - 1].end() : groups[last].start()].strip(" \u00a0\u2007\u202f\x1f")
            gaps.add(gap)
        digits += group
        lengths = f"{lengths} {len(group)}".strip()
        if len(digits) > 19 or len(gaps) > 1:
            break
        shaped = last == first or _GROUPED.fullmatch(lengths)
        if len(digits) >= 13 and shaped and _is_card(digits, groups[first : last + 1]):
            ends = last
    if ends == first and text[: groups[first].start()][-2:-1].isdigit() and text[groups[first].start() - 1] in ".,":
        return None  # the decimals of a number
    return ends


def _is_card(digits: str, groups: Sequence[re.Match[str]]) -> bool:
    row = len(groups) > 1 and all(one[0][-1] == "0" and one[0][0] != "0" for one in groups)  # 4000 3000 2000 1000
    article = len(groups) == 1 and len(digits) == 13 and is_ean(digits)  # 13-digit cards are no longer issued
    return bool(_ISSUED.fullmatch(digits)) and luhn(digits) and not row and not article


def is_ean(digits: str) -> bool:
    """Whether the check digit of an article number (EAN, ISBN) fits. One in ten random numbers passes."""
    return (3 * sum(map(int, digits[-2::-2])) + sum(map(int, digits[::-2]))) % 10 == 0


def ibans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the positions of IBANs in a text, grouped or not, with the country's length and a valid checksum."""
    for found in _IBAN.finditer(text):
        characters, end = found[1].upper(), found.end()
        length = _LENGTH.get(characters, 0)
        while len(characters) < length and (following := _NEXT.match(text, end)):
            characters, end = characters + following[1].upper(), following.end()
        if len(characters) != length or not length or re.match("[A-Za-z0-9]", text[end : end + 1]):
            continue
        if not characters.isascii() or sum(map(str.isdigit, characters)) < _FEWEST_DIGITS:
            continue
        if int("".join(str(int(one, 36)) for one in characters[4:] + characters[:4])) % 97 == 1:
            yield found.start(), end
