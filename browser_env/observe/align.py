"""Alignment of the rows of two outlines that keeps their order."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence

_SMALL = 2500
"""Maximum pairs of rows, in a stretch without unique keys, for which the longest common subsequence is computed."""


def align(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return pairs of indices of equal keys, increasing in both.

    Keys that occur once in both are matched first, then the stretches between them (a patience diff). Element ids are
    such keys, so a page with an insertion is aligned by its elements and not by its bare `listitem`s. Takes about
    n log n for n rows.
    """
    pairs: list[tuple[int, int]] = []
    stretches = [(0, len(old), 0, len(new))]
    while stretches:
        a, a_end, b, b_end = stretches.pop()
        while a < a_end and b < b_end and old[a] == new[b]:
            pairs.append((a, b))
            a, b = a + 1, b + 1
        while a < a_end and b < b_end and old[a_end - 1] == new[b_end - 1]:
            a_end, b_end = a_end - 1, b_end - 1
            pairs.append((a_end, b_end))
        if a == a_end or b == b_end:
            continue
        anchors = _unique(old, new, a, a_end, b, b_end)
        if anchors:
            for left, right in zip([(a - 1, b - 1), *anchors], [*anchors, (a_end, b_end)], strict=True):
                stretches.append((left[0] + 1, right[0], left[1] + 1, right[1]))
            pairs.extend(anchors)
        elif (a_end - a) * (b_end - b) <= _SMALL:
            pairs.extend(_longest(old, new, a, a_end, b, b_end))
    return sorted(pairs)


def _unique(
    old: Sequence[Hashable], new: Sequence[Hashable], a: int, a_end: int, b: int, b_end: int
) -> list[tuple[int, int]]:
    """Return index pairs of the keys that occur once on both sides: the longest sequence in the same order."""
    once = {key for key, number in Counter(old[a:a_end]).items() if number == 1}
    once &= {key for key, number in Counter(new[b:b_end]).items() if number == 1}
    if not once:
        return []
    where = {key: j for j, key in enumerate(new[b:b_end], b) if key in once}
    candidates = [(i, where[key]) for i, key in enumerate(old[a:a_end], a) if key in once]
    tails: list[int] = []  # the longest increasing subsequence, by patience sorting
    piles: list[int] = []
    before: list[int] = []
    for index, (_, j) in enumerate(candidates):
        pile = bisect_left(tails, j)
        before.append(piles[pile - 1] if pile else -1)
        tails[pile : pile + 1] = [j]
        piles[pile : pile + 1] = [index]
    chain: list[tuple[int, int]] = []
    index = piles[-1]
    while index >= 0:
        chain.append(candidates[index])
        index = before[index]
    return chain[::-1]


def _longest(
    old: Sequence[Hashable], new: Sequence[Hashable], a: int, a_end: int, b: int, b_end: int
) -> list[tuple[int, int]]:
    """Return the longest common subsequence of two short stretches."""
    rows, columns = a_end - a, b_end - b
    length = [[0] * (columns + 1) for _ in range(rows + 1)]
    for i in range(rows - 1, -1, -1):
        for j in range(columns - 1, -1, -1):
            same = old[a + i] == new[b + j]
            length[i][j] = length[i + 1][j + 1] + 1 if same else max(length[i + 1][j], length[i][j + 1])
    pairs, i, j = [], 0, 0
    while i < rows and j < columns:
        if old[a + i] == new[b + j]:
            pairs.append((a + i, b + j))
            i, j = i + 1, j + 1
        elif length[i + 1][j] >= length[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs
