"""Two runs on the same tasks and seeds: how far they differ, and whether chance could do that.

Pairs of one task resemble each other, so the task is the unit: the interval resamples tasks, and the test flips whole
tasks. McNemar's counts show what the difference is made of; his test itself would take pairs for independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from selfsurf.scripts.report.intervals import Floats, Interval, percentiles, unanimous, weights


@dataclass(frozen=True)
class Mcnemar:
    """Pairs by who solved them."""

    both: int
    only_first: int
    only_other: int
    neither: int


def mcnemar(first: Sequence[bool], other: Sequence[bool]) -> Mcnemar:
    """Count the pairs by who solved them."""
    a, b = np.asarray(first, dtype=bool), np.asarray(other, dtype=bool)
    return Mcnemar(int((a & b).sum()), int((a & ~b).sum()), int((~a & b).sum()), int((~a & ~b).sum()))


def by_task(values: Sequence[float], tasks: Sequence[int]) -> tuple[Floats, Floats]:
    """Sum and number of the values of every task."""
    _, group = np.unique(np.asarray(tasks), return_inverse=True)
    sums = np.bincount(group, weights=np.asarray(values, dtype=np.float64)).astype(np.float64)
    return sums, np.bincount(group).astype(np.float64)


def difference_interval(differences: Sequence[float], tasks: Sequence[int], bound: float) -> Interval | None:
    """The 95% interval of the mean difference over pairs, by bootstrap over tasks with all their pairs.

    Seeds are not drawn again inside a task: both runs had the same ones, and what they differ by there is in the
    task's own difference. None with fewer than two tasks, over which nothing can be resampled.

    Args:
        differences: one a pair.
        tasks: of each pair, the number of its task.
        bound: how far a difference can be from 0; used where all pairs differ alike and a bootstrap has no width.
    """
    sums, numbers = by_task(differences, tasks)
    count = len(sums)
    if count < 2:
        return None
    means = sums / numbers
    if np.ptp(means) == 0:
        return unanimous(float(means[0]), count, -bound, bound)
    drawn = _drawn(count)
    low, high = percentiles(((drawn @ sums) / (drawn @ numbers))[:, None])
    return Interval(float(low[0]), float(high[0]), "bootstrap")


@lru_cache(maxsize=4)
def _drawn(count: int) -> Floats:
    """Resamples of so many tasks, with one value each: that draws tasks alone."""
    return weights(range(count))


def sign_flip(differences: Sequence[int], tasks: Sequence[int]) -> float:
    """The exact two-sided p of a sign-flip test, clustered by task.

    If the two runs were alike, each task's summed difference could as well have had the other sign (Fisher 1935). p is
    the share of all 2^tasks choices of signs with a sum at least as far from 0 as the one seen. Differences of 0/1
    successes are whole numbers, so the distribution of the sum comes out exactly, task by task, without sampling.
    """
    sums, _ = by_task(differences, tasks)
    sizes = np.abs(np.rint(sums)).astype(np.int64)
    reach, seen = int(sizes.sum()), abs(round(float(sums.sum())))
    chance = np.zeros(2 * reach + 1)
    chance[reach] = 1.0
    for size in sizes[sizes > 0]:
        chance = (np.roll(chance, size) + np.roll(chance, -size)) / 2  # never wraps: the sum stays within its reach
    far = np.abs(np.arange(-reach, reach + 1)) >= seen
    return min(1.0, float(chance[far].sum()))
