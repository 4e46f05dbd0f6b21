"""Cutting texts to a token limit, using only a tokenizer's counts.

A count can be expensive (a whole prompt, a request to a server), so few are made: the number of characters predicts
where to look, and exact counts decide.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate

_RATE = 0.3
"""Assumed tokens per character before any count of the text."""

_GUESSES = 6
"""Number of guesses by characters before the search continues by bisection."""


def most_that_fit(sizes: Sequence[int], count: Callable[[int], int], limit: int, none: int) -> int:
    """Return how many leading pieces fit at most; with non-monotonic counts, some number that fits.

    Args:
        sizes: approximate length of each piece, in characters.
        count: exact number of tokens with that many pieces.
        limit: maximum number of tokens.
        none: the value of `count(0)`, at most `limit`.
    """
    sums = list(accumulate(sizes, initial=0))
    low, high = 0, len(sizes) + 1  # `low` fits; `high` does not fit or exceeds the number of pieces
    at, tokens, rate = 0, none, _RATE
    guesses = 0
    while high - low > 1:
        guess = (low + high) // 2
        if guesses < _GUESSES:
            guess = bisect_right(sums, sums[at] + (limit - tokens) / rate) - 1
        guess = min(max(guess, low + 1), high - 1)
        before, at, tokens = (sums[at], tokens), guess, count(guess)
        guesses += 1
        low, high = (guess, high) if tokens <= limit else (low, guess)
        if sums[at] != before[0] and tokens != before[1]:
            rate = max(abs((tokens - before[1]) / (sums[at] - before[0])), 0.01)
    return low


def cut(text: str, limit: int, count: Callable[[str], int]) -> str:
    """Return the text if it has at most `limit` tokens, else its beginning with a note of its original length.

    The note counts toward the limit. If not even the note fits, the result is empty.
    """
    if limit <= 0:
        return ""
    if len(text.encode("utf-8", "replace")) < limit:
        return text  # a token has at least one byte
    total = count(text)
    if total <= limit:
        return text

    def shortened(length: int) -> str:
        return f"{text[:length].rstrip()}… ({total} tokens, cut)"

    none = count(shortened(0))
    if none > limit:
        return ""
    return shortened(most_that_fit([1] * (len(text) - 1), lambda length: count(shortened(length)), limit, none))
