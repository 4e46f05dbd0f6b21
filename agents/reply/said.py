"""The texts that a goal says: what a reply may copy from it."""

from __future__ import annotations

import re

MOST_WORDS = 8
"""Words of the longest run that is copied, if it isn't in quotes."""

MOST_TEXTS = 400
"""Texts of a goal: of a long one shorter runs are copied; if it has more words than this, any text is allowed."""

_SAID = re.compile(r"\"([^\"]+)\"|“([^”]+)”|(?<!\w)'([^']+)'(?!\w)|(\S+)")
_AROUND = " .,;:!?\"'“”‘’„«»()[]{}…"
"""What stands around a word and is not part of it."""


def longest_said(goal: str) -> int:
    """Return the characters of the longest text that a goal says to write: one in quotes, an address or a word."""
    return max((len(text) for found in _SAID.findall(goal) for text in found), default=0)


def said_in(goal: str) -> tuple[str, ...]:
    """Return the texts that a goal may ask to be typed, in its order: what it quotes, its words, and runs of words.

    Words are taken without the punctuation around them. Empty if the goal has more than `MOST_TEXTS` words.
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
