"""Words that a goal shares with the actions that reached it: the values that may differ next time.

"Book Seaview" and "book the Seaview hotel" share "Seaview", "Mug" and "two mugs" share "Mug", "2" and "two rooms" share
"2". All functions are pure comparisons of texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from selfsurf.browser_env.actions import Action

NUMBERS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
)  # fmt: skip
"""English number words; the index is the value."""

_ORDINALS = ("zeroth", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_ORDINAL = re.compile(r"(\d+)(?:st|nd|rd|th)")
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

WORD = re.compile(r"\d+(?:[.,:/-]\d+)+|[^\W_]+")
_ENDINGS = ("s", "es")
SMALL = frozenset((
    "a", "an", "the", "and", "or", "of", "for", "to", "in", "on", "at", "by", "with", "from", "as", "is", "it", "its",
    "this", "that", "my", "your", "der", "die", "das", "den", "dem", "ein", "eine", "und", "für", "mit", "von", "zu",
    "im", "am", "la", "le", "les", "el", "los", "il", "lo", "un", "une", "una", "y", "et", "e", "de", "del", "des",
    "du", "en", "au", "aux", "per", "con", "da", "di",
))  # fmt: skip
"""Common words, which don't count as shared on their own."""


def bounded(text: str) -> str:
    """Return a regular expression that matches a text only at word and number boundaries."""
    before, after = (r"(?<![\d][.,:/-])" if text[:1].isdigit() else "", r"(?![.,:/-]\d)" if text[-1:].isdigit() else "")
    return rf"(?<!\w){before}{re.escape(text)}{after}(?!\w)"


def words_of(text: str) -> list[str]:
    """Return the words and numbers of a text."""
    return WORD.findall(text)


def plain(word: str) -> str:
    """Return the form in which words are compared: lowercase without plural ending, or the number.

    "1st" equals "first", "Mon" equals "Monday", "08:15" equals "8:15".
    """
    word = word.casefold()
    if word in NUMBERS:
        return str(NUMBERS.index(word))
    if word[:1].isdigit():
        ordinal = _ORDINAL.fullmatch(word)
        return f"{ordinal[1]}." if ordinal else word.lstrip("0") or "0"
    if word in _ORDINALS:
        return f"{_ORDINALS.index(word)}."
    if word in _DAYS:
        return word[:3]
    return next((word.removesuffix(end) for end in reversed(_ENDINGS) if word.endswith(end) and len(word) > 3), word)


def in_words(text: str, *, like: str) -> str:
    """Spell out the numbers of a text if `like` spells out its own: beside "three", "2" becomes "two"."""

    def said(match: re.Match[str]) -> str:
        number, of = int(match[1]), _ORDINALS if match[2] else NUMBERS
        return of[number] if number < len(of) and any(word in of for word in words_of(like.casefold())) else match[0]

    return re.sub(r"(?<!\w)(\d+)(st|nd|rd|th)?(?!\w)", said, text)


def full_day(word: str) -> str:
    """Return the weekday that a word such as "Mon" abbreviates; empty if there is none."""
    return next((day.capitalize() for day in _DAYS if len(word) > 2 and day.startswith(word.casefold())), "")


def shared_words(text: str, goal: str, others: Sequence[str] = ()) -> str:
    """Return the part of a text that also occurs in a goal, ignoring case and plural endings.

    If there are several parts, the most distinctive one is returned: a word counts less the more of the others contain
    it.

    Args:
        text: for example the name of an element.
        goal: the goal in words.
        others: texts that could have been used instead, such as the names of neighboring elements.

    Returns:
        The part as spelled in the text; empty if only words like "the", or words that all others contain, are shared.
    """
    mine, there = list(WORD.finditer(text)), list(map(plain, words_of(goal)))
    said = [plain(one[0]) for one in mine]
    beside = [set(map(plain, words_of(one))) for one in others]
    worth = [0.0 if word in SMALL else 1 - sum(word in one for one in beside) / max(1, len(beside)) for word in said]
    best, part = 0.0, ""
    for first in range(len(said)):
        for place in range(len(there)):
            last = first
            while last < len(said) and place + last - first < len(there) and said[last] == there[place + last - first]:
                last += 1
            told = [at for at in range(first, last) if worth[at] or last - first == len(said)]
            if sum(worth[first:last]) > best:
                best, part = sum(worth[first:last]), text[mine[told[0]].start() : mine[told[-1]].end()]
    return part


def said_as(text: str, goal: str) -> str:
    """Return the part of a goal that mentions a text, ignoring case and plural endings; empty if there is none."""
    wanted, there = list(map(plain, words_of(text))), list(WORD.finditer(goal))
    said = [plain(one[0]) for one in there]
    for place in range(len(said) - len(wanted) + 1 if wanted else 0):
        if said[place : place + len(wanted)] == wanted:
            return goal[there[place].start() : there[place + len(wanted) - 1].end()]
    return ""


def texts_of_goal(goal: str, steps: Iterable[tuple[Action, Sequence[Mapping[str, Any]]]]) -> list[str]:
    """Return the texts that were typed, chosen or clicked and that occur verbatim in the goal.

    Args:
        goal: the goal in words.
        steps: each action, with the elements of the page that it was performed on.
    """
    found: list[str] = []
    for action, elements in steps:
        done: Any = action
        names = {one["id"]: one["name"] for one in elements}
        if done.name in ("fill", "type"):
            found.append(done.text)
        elif done.name == "select":
            found += done.options
        elif done.name == "click":
            found.append(names.get(done.id, ""))
    return [text for text in dict.fromkeys(found) if text.strip() and re.search(bounded(text), goal)]
