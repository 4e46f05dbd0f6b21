"""Texts of a goal that a reply may copy into a field."""

from __future__ import annotations

import re

MOST_WORDS = 8
"""Maximum number of words in a text without quotation marks."""

MOST_TEXTS = 400
"""Maximum number of word runs per goal; longer goals yield shorter runs, and goals with more words yield none."""

_SAID = re.compile(r"\"([^\"]+)\"|“([^”]+)”|(?<!\w)'([^']+)'(?!\w)|(\S+)")
_AROUND = " .,;:!?\"'“”‘’„«»()[]{}…"
"""Characters around a word that are not part of it."""


def longest_said(goal: str) -> int:
    """Return the length of the goal's longest quotation, address or word, in characters."""
    return max((len(text) for found in _SAID.findall(goal) for text in found), default=0)


def said_in(goal: str) -> tuple[str, ...]:
    """Return the texts that a goal may ask to type, in order: its quotations, its words, and runs of words.

    Words are taken without the punctuation around them. A goal with more than `MOST_TEXTS` words yields only
    quotations.
    """
    quoted = [text.strip() for found in _SAID.findall(goal) for text in found[:3]]
    words = goal.split()
    longest = min(MOST_WORDS, MOST_TEXTS // max(1, len(words)))
    runs = (
        " ".join(words[first : first + count]).strip(_AROUND)
        for first in range(len(words))
        for count in range(1, min(longest, len(words) - first) + 1)
    )
    return tuple(dict.fromkeys(text for text in (*quoted, *runs) if text and text.isprintable()))
