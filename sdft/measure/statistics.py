"""Intervals for success rates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

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


Episodes = Mapping[str, Mapping[tuple[int, int], bool]]
"""By task: whether the episode of (training seed, evaluation seed) was solved."""


def mean_interval(by_task: Episodes, draws: int = 10_000) -> tuple[float, float]:
    """Return the 95% bootstrap interval of the mean over tasks, which are taken as given, not as a sample of tasks.

    All training seeds are judged on the same evaluation seeds, so both are drawn anew, each for itself (Owen, The
    pigeonhole bootstrap, 2007): training seeds, where there are several, for all tasks at once, and in each task the
    evaluation seeds for all training seeds at once. One training seed fewer is drawn than there are, as drawing all
    understates their variance, with two of them by half (Rao and Wu, 1988). What is random in both is counted up to
    three times, so the interval leans to the wide side; but of how two or three training seeds differ it knows little.

    A task whose episodes all ended alike would vary in no draw. It gets an evaluation seed that is solved and one that
    is not, by Laplace's rule of succession; for them the draws spread, but the interval stays about the mean found.
    """
    rng = np.random.default_rng(0)
    trained = sorted({seed for solved in by_task.values() for seed, _ in solved})
    if not trained:
        return 0.0, 1.0
    weights: NDArray[Any] = np.ones((draws, 1))
    if len(trained) > 1:
        weights = rng.multinomial(len(trained) - 1, np.full(len(trained), 1 / len(trained)), size=draws)
    rates, deviations = [], []
    for solved in by_task.values():
        if not solved:
            continue
        rates.append(sum(solved.values()) / len(solved))
        right, judged = _table(solved, trained)
        pages = right.shape[1]
        if len(set(solved.values())) == 1:
            right, judged = np.pad(right, ((0, 0), (0, 2))), np.pad(judged, ((0, 0), (0, 2)), constant_values=1)
            right[:, -1] = 1
        columns = right.shape[1]
        counts = rng.multinomial(pages, np.full(columns, 1 / columns), size=draws)
        with np.errstate(invalid="ignore"):  # a draw of nothing but episodes that were not judged
            drawn = (weights @ right * counts).sum(1) / (weights @ judged * counts).sum(1)
        deviations.append(drawn - right.sum() / judged.sum())
    there = ~np.isnan(deviations)
    with np.errstate(invalid="ignore"):
        means = np.nansum(deviations, axis=0) / there.sum(axis=0)
    low, high = np.mean(rates) + np.nanquantile(means, [0.025, 0.975])
    return max(0.0, float(low)), min(1.0, float(high))


def _table(solved: Mapping[tuple[int, int], bool], trained: Sequence[int]) -> NDArray[np.float64]:
    """Return what was solved and what was judged, `[2, training seed, evaluation seed]`."""
    pages = sorted({page for _, page in solved})
    table = np.zeros((2, len(trained), len(pages)))
    for (seed, page), done in solved.items():
        table[:, trained.index(seed), pages.index(page)] = done, 1
    return table
