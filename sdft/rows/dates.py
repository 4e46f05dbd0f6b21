"""Dates in goals and on pages: the same day may be written "2027-05-06", "6 May 2027", "May 6" or "06.05.2027"."""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator
from typing import NamedTuple

_MONTHS = [name.lower() for name in calendar.month_name]
_NAMES = "|".join(f"{name}|{name[:3]}" for name in calendar.month_name[1:])
_FORMS = [
    re.compile(form, re.IGNORECASE)
    for form in (
        r"(?<![\w-])(?P<y>\d{4})-(?P<m>\d\d)-(?P<d>\d\d)(?![\w-])",
        r"(?<![\w.])(?P<d>\d{1,2})\.(?P<m>\d{1,2})\.(?P<y>\d{4})(?!\w)",
        rf"(?<!\w)(?P<d>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? (?P<name>{_NAMES})\b(?:,? (?P<y>\d{{4}})(?!\w))?",
        rf"(?<!\w)(?P<name>{_NAMES}) (?P<d>\d{{1,2}})(?:st|nd|rd|th)?(?!\w)(?:,? (?P<y>\d{{4}})(?!\w))?",
    )
]


_ORDINAL = re.compile(r"(\d+)(?:st|nd|rd|th)\b", re.IGNORECASE)


class Day(NamedTuple):
    """A calendar day, with or without its year."""

    month: int
    day: int
    year: int | None
    """Year of the day; None if the text has none."""

    def same(self, other: Day) -> bool:
        """Whether both may be the same day."""
        return self[:2] == other[:2] and (self.year == other.year or None in (self.year, other.year))


class DateMention(NamedTuple):
    """A day as written in a text."""

    day: Day
    start: int
    end: int
    parts: dict[str, tuple[int, int]]
    """Spans in the text of the date's parts: `y`, `m`, `name` and `d`."""


def days_in(text: str) -> Iterator[DateMention]:
    """Yield the days in a text, from left to right."""
    found = [one for form in _FORMS for one in form.finditer(text)]
    for one in sorted(found, key=lambda each: each.start()):
        said = {key: one[key] for key in one.groupdict() if one[key] is not None}
        month = int(said["m"]) if "m" in said else _month(said["name"])
        if 1 <= month <= 12 and 1 <= int(said["d"]) <= 31:
            day = Day(month, int(said["d"]), int(said["y"]) if "y" in said else None)
            yield DateMention(day, one.start(), one.end(), {key: one.span(key) for key in said})


def rewritten(text: str, written: DateMention, day: Day) -> str:
    """Write another day in the format of a date in a text."""
    result = text[written.start : written.end]
    for key, (start, end) in sorted(written.parts.items(), key=lambda one: -one[1][0]):
        was = text[start:end]
        number = {"y": day.year or written.day.year or 0, "m": day.month, "d": day.day}.get(key, 0)
        new = (
            _named(day.month, was)
            if key == "name"
            else f"{number:0{len(was) if was.startswith('0') or key == 'y' else 1}d}"
        )
        new = new.zfill(2) if key in "md" and len(was) == 2 and "name" not in written.parts else new
        result = result[: start - written.start] + new + result[end - written.start :]
    return _ORDINAL.sub(_ordinal, result)


def _month(name: str) -> int:
    return next(number for number, full in enumerate(_MONTHS) if full and full.startswith(name.lower()[:3]))


def _named(month: int, was: str) -> str:
    name = calendar.month_name[month]
    name = name[:3] if len(was) == 3 and was.lower() not in _MONTHS else name
    return name.upper() if was.isupper() else name.lower() if was.islower() else name


def _ordinal(match: re.Match[str]) -> str:
    number = int(match[1])
    ending = "th" if 10 < number % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return match[1] + ending
