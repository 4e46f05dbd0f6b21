"""Intervals for success rates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

Z95 = 1.959964
"""Two-sided 95% quantile of the normal distribution."""


def wilson(solved: int, total: int) -> tuple[float, float]:
    """Return the 95% Wilson score interval of a success rate (Wilson, 1927)."""
    if total == 0:
        return 0.0, 1.0
    rate, z = solved / total, Z95
    centre = (rate + z * z / (2 * total)) / (1 + z * z / total)
    half = z * math.sqrt(rate * (1 - rate) / total + z * z / (4 * total * total)) / (1 + z * z / total)
    return max(0.0, centre - half), min(1.0, centre + half)


def mean_interval(by_task: Mapping[str, Sequence[bool]], draws: int = 10_000, seed: int = 0) -> tuple[float, float]:
    """Return the 95% bootstrap interval of the mean over tasks, seeds being drawn anew within each task.

    Tasks are taken as given, not as a sample of tasks. Where all seeds of all tasks agree, the interval is a point.
    """
    rng = np.random.default_rng(seed)
    means = [
        rng.binomial(len(solved), sum(solved) / len(solved), size=draws) / len(solved)
        for solved in by_task.values()
        if len(solved)
    ]
    if not means:
        return 0.0, 1.0
    low, high = np.quantile(np.mean(means, axis=0), [0.025, 0.975])
    return float(low), float(high)
