"""Intervals for figures of a benchmark: tasks are a sample of tasks, seeds a sample of each task's instances.

Episodes of one task resemble each other, so 125 tasks x 5 seeds are not 625 independent trials, and an interval that
takes them for such is too narrow. The bootstrap here is hierarchical: it draws tasks, and inside each drawn task its
episodes (Davison and Hinkley, Bootstrap Methods and their Application, 1997, section 3.8; for reinforcement learning
Agarwal et al., Deep Reinforcement Learning at the Edge of the Statistical Precipice, 2021). Drawing at both levels
counts the noise between seeds once more than drawing tasks alone, so the intervals lean to the wide side: with few
seeds a task they hold the truth somewhat more often than 95 times in 100.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Kind = Literal["bootstrap", "wilson", "unanimous"]

RESAMPLES = 4000
"""Resamples of a bootstrap."""

SEED = 20210830
"""Of the bootstrap's generator: the same folder always gives the same intervals."""

Z = 1.959963984540054
"""Quantile of the normal distribution that leaves 2.5% above it."""

_CELLS = 2_000_000
"""Most draws held in memory at once."""


@dataclass(frozen=True)
class Interval:
    """A 95% interval of a mean."""

    low: float
    high: float
    kind: Kind


def wilson(mean: float, trials: int) -> Interval:
    """Wilson's score interval of a share (Wilson 1927): never empty, and honest at 0 of 5 and at 5 of 5.

    For one task over its seeds, where a bootstrap of five equal values would claim certainty.
    """
    centre = mean + Z * Z / (2 * trials)
    spread = Z * np.sqrt(mean * (1 - mean) / trials + Z * Z / (4 * trials * trials))
    scale = 1 + Z * Z / trials
    return Interval(max(0.0, float((centre - spread) / scale)), min(1.0, float((centre + spread) / scale)), "wilson")


def unanimous(value: float, tasks: int, low: float, high: float) -> Interval:
    """The interval where every task shows the same value, and a bootstrap would have no width.

    If none of n tasks differs, at most Wilson's upper bound for 0 of n of all tasks do, and those may show anything
    between `low` and `high`. For a share of 0 or 1 this is Wilson's interval with tasks, not episodes, as its trials.
    """
    others = wilson(0.0, tasks).high
    same = (1 - others) * value
    return Interval(same + others * low, same + others * high, "unanimous")


def weights(tasks: Sequence[int], resamples: int = RESAMPLES) -> Floats:
    """Draw resamples: `[resample, episode]`, how many times an episode is in it.

    Each resample draws as many tasks as there are, with replacement, and for every drawn task as many of its
    episodes as it has, with replacement.

    Args:
        tasks: of each episode, the number of its task.
        resamples: how many to draw.
    """
    _, group, counts = np.unique(np.asarray(tasks), return_inverse=True, return_counts=True)
    order = np.argsort(group, kind="stable")
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    episodes, number, widest = len(group), len(counts), int(counts.max())
    rng = np.random.default_rng(SEED)
    drawn = np.empty((resamples, episodes))
    chunk = max(1, _CELLS // (number * widest))
    for first in range(0, resamples, chunk):
        rows = min(chunk, resamples - first)
        task = rng.integers(number, size=(rows, number))
        size = counts[task]
        within = np.floor(rng.random((rows, number, widest)) * size[..., None]).astype(np.int64)
        cell = order[starts[task][..., None] + within] + episodes * np.arange(rows)[:, None, None]
        used = np.arange(widest) < size[..., None]
        drawn[first : first + rows] = np.bincount(cell[used], minlength=rows * episodes).reshape(rows, episodes)
    return drawn


def resampled_means(drawn: Floats, values: Floats) -> Floats:
    """The mean in every resample, `[resample, measure]`; values `[episode, measure]` that are NaN are left out."""
    there = ~np.isnan(values)
    number = drawn @ there.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(drawn @ np.where(there, values, 0.0) / number, dtype=np.float64)


def percentiles(means: Floats) -> tuple[Floats, Floats]:
    """The middle 95% of every column of resampled means."""
    low, high = np.nanpercentile(means, [2.5, 97.5], axis=0)
    return low, high


def mean_interval(
    values: Sequence[float], tasks: Sequence[int], low: float, high: float, drawn: Floats | None = None
) -> Interval | None:
    """The interval of a mean over episodes: hierarchical bootstrap, or where that has no width, what is honest instead.

    Args:
        values: one an episode.
        tasks: of each episode, the number of its task.
        low: the least that a value can be.
        high: the most.
        drawn: resamples of these episodes, to use one drawing for several measures.

    Returns:
        None without episodes. For a single task Wilson's interval, which for values between 0 and 1 that are not
        only these two is too wide rather than too narrow; a single task's values of another range have none.
    """
    array, number = np.asarray(values, dtype=np.float64), len(set(tasks))
    if not len(array):
        return None
    mean = float(array.mean())
    if number == 1:
        return wilson(mean, len(array)) if (low, high) == (0, 1) else None
    if np.ptp(array) == 0:
        return unanimous(mean, number, low, high)
    below, above = percentiles(resampled_means(weights(tasks) if drawn is None else drawn, array[:, None]))
    return Interval(float(below[0]), float(above[0]), "bootstrap")
