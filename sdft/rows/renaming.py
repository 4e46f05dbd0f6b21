"""Replacement of the words that goal, pages and actions of a recording share, everywhere at once.

All members of a choice get their words from one draw and in a random order, so that length, novelty and recorded words
don't reveal which member the goal means.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import numpy as np

from selfsurf.browser_env.goal.words import bounded, full_day, in_words, said_as
from selfsurf.browser_env.safety.secrets import PLACEHOLDER
from selfsurf.sdft.rows.choices import Choice
from selfsurf.sdft.rows.dates import Day, days_in, rewritten

AS_RECORDED, ALL_NEW = 0.3, 0.4
"""Probabilities that a choice's members keep the recorded words, in another order, and that all get new ones; otherwise
each gets a new one with probability 0.5."""

REAL_WORDS = 0.5
"""Probability that a replacement is a word of the recorded pages rather than a meaningless one."""

_WORD = re.compile(r"[^\W\d_]{2,}|\d+")
_CONSONANTS, _VOWELS = "bcdfghklmnprstvwz", "aeiou"
_ATTEMPTS = 50

Text = Callable[[str], str]


class Words:
    """Random words that aren't in use.

    Args:
        rng: random generator.
        real: real words that may be drawn, such as the page's own.
        taken: texts whose words are not drawn.
        share: share of real words, as long as any are left.
    """

    def __init__(self, rng: np.random.Generator, real: Sequence[str], taken: Iterable[str], share: float) -> None:
        self._rng = rng
        self._taken = {word.lower() for text in taken for word in _WORD.findall(text)}
        self._real = [word for word in real if word not in self._taken]
        self._share = share
        self._known: dict[str, str] = {}

    def other(self, text: str) -> str:
        """Return another text with as many words. Equal words, in any case, get the same replacement in all texts."""
        return _WORD.sub(self._word, text)

    def word(self, length: int) -> str:
        """Return a pronounceable, meaningless word."""
        parts = self._rng.integers(len(_CONSONANTS) * len(_VOWELS), size=max(2, (length + 1) // 2))
        spoken = (_CONSONANTS[part // len(_VOWELS)] + _VOWELS[part % len(_VOWELS)] for part in parts)
        return "".join(spoken)[: max(length, 4)]

    def _word(self, match: re.Match[str]) -> str:
        word = match[0]
        if word.lower() not in self._known:
            self._known[word.lower()] = self._unused(word)
        new = self._known[word.lower()]
        return new.upper() if word.isupper() else new.capitalize() if word[0].isupper() else new

    def _unused(self, word: str) -> str:
        for attempt in range(_ATTEMPTS):
            new = self._drawn(word if attempt < _ATTEMPTS / 2 else word + word[-1])  # most short numbers are taken
            if new not in self._taken:
                break
        self._taken.add(new)
        self._real = [one for one in self._real if one != new]
        return new

    def _drawn(self, word: str) -> str:
        if word[0].isdigit():
            first = self._rng.integers(1, 10) if word[0] != "0" else 0
            return "".join(map(str, [first, *self._rng.integers(10, size=len(word) - 1)]))
        if self._real and self._rng.random() < self._share:
            return self._real[int(self._rng.integers(len(self._real)))]
        return self.word(len(word))


def renamed(
    choices: Sequence[Choice], words: Words, rng: np.random.Generator, as_recorded: float = AS_RECORDED
) -> dict[str, str]:
    """Return replacements for the texts that distinguish choices' members, and for the members' full names.

    Args:
        choices: choices that the goal decides.
        words: source of new words.
        rng: random generator.
        as_recorded: probability that the members keep the recorded words.
    """
    found: dict[str, str] = {}
    for values in _united([column for one in choices for column in one.columns]):
        drawn = rng.random()
        share = 0.0 if drawn < as_recorded else 1.0 if drawn < as_recorded + ALL_NEW else 0.5
        new = [words.other(value) if rng.random() < share else value for value in values]
        if len(set(new)) == len(values):
            found |= {value: new[at] for value, at in zip(values, rng.permutation(len(values)), strict=True)}
    for one in choices:
        found |= _forms(one, found, rng)
    return found


def _united(columns: Iterable[Sequence[str]]) -> list[list[str]]:
    """Merge columns that share a text, which needs the same replacement in all of them."""
    found: list[dict[str, None]] = []
    for column in columns:
        values = dict.fromkeys(column)
        for other in [one for one in found if not one.keys().isdisjoint(values)]:
            found.remove(other)
            values = {**other, **values}
        found.append(values)
    return [[*one] for one in found]


def _forms(choice: Choice, new: Mapping[str, str], rng: np.random.Generator) -> dict[str, str]:
    """Return replacements for the members' full names in which the text around the values is shuffled."""
    for values in choice.columns if len(choice.columns) == 1 else ():
        if not all(value in name for value, name in zip(values, choice.names, strict=True)):
            continue
        around = [tuple(name.split(value, 1)) for value, name in zip(values, choice.names, strict=True)]
        if len(set(around)) > 1:
            forms = [around[at] for at in rng.permutation(len(around))]
            named = zip(choice.names, values, forms, strict=True)
            return {name: new.get(value, value).join(form) for name, value, form in named}
    return {}


def replacing(texts: Mapping[str, str], loose: Collection[str] = (), days: Mapping[Day, Day] | None = None) -> Text:
    """Return a function that replaces texts, all at once.

    Args:
        texts: replacement of each text.
        loose: texts that are also replaced in other case and in the plural.
        days: replacement of each day, in any date format.
    """
    days = days or {}
    known = {text.lower(): other for text, other in texts.items() if text in loose}

    def other(match: re.Match[str]) -> str:
        said = match[0]
        if said in texts or PLACEHOLDER.fullmatch(said):
            return texts.get(said, said)
        stem = next(said[: len(said) - number] for number in (0, 1, 2) if said[: len(said) - number].lower() in known)
        new = known[stem.lower()]
        return (new.upper() if said.isupper() else new.lower() if said.islower() else new) + said[len(stem) :]

    longest_first = sorted(texts, key=len, reverse=True)
    forms = (_in_any_form(one) if one in loose and not one[-1:].isdigit() else bounded(one) for one in longest_first)
    pattern = re.compile("|".join([PLACEHOLDER.pattern, *forms]))

    def replaced(text: str) -> str:
        parts, end = [], 0
        for one in days_in(text) if days else ():
            new = next((to for day, to in days.items() if day.same(one.day)), None)
            if new is not None and one.start >= end:
                parts += [pattern.sub(other, text[end : one.start]), rewritten(text, one, new)]
                end = one.end
        return "".join([*parts, pattern.sub(other, text[end:])])

    return replaced


def said_otherwise(value: str, new: str, goal: str) -> dict[str, str]:
    """Return the goal's paraphrase of a value and that of the new value, such as "two" for "2"; empty if verbatim."""
    said = said_as(value, goal)
    if not said or re.search(_in_any_form(value), goal):
        return {}
    new = in_words(new, like=said)
    if value == f"0{said}":
        new = new.removeprefix("0")
    elif said.casefold().startswith(value.casefold()) and new.isalpha():
        new = full_day(new) or new + said[len(value) :]  # an abbreviation
    return {said: new.lower() if said.islower() else new}


def _in_any_form(text: str) -> str:
    return rf"(?<!\w)(?i:{re.escape(text)})(?:e?s)?(?!\w)"
