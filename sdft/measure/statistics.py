"""Intervals and tests of this project, each named for what it resamples.

Episodes of one task resemble each other, so 125 tasks x 5 seeds are not 625 independent trials, and an interval that
treats them as independent is too narrow. The right interval depends on what is a sample and what is fixed:

- `wilson_interval`: one share of independent trials, nothing resampled; `newcombe_interval`: the difference of two;
- `interval_over_tasks_and_episodes`: a benchmark's mean; tasks are a sample of tasks, seeds a sample of each task's
  pages;
- `interval_over_tasks` and `sign_flip_over_tasks`: the difference of two runs on the same tasks and seeds;
- `Confusion`: a judge against the truth, nothing resampled;
- `interval_over_seeds`: training and evaluation seeds are samples, tasks are fixed.

All intervals are 95% intervals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Kind = Literal["bootstrap", "wilson", "unanimous"]

RESAMPLES = 4000
"""Number of resamples in a bootstrap."""

SEED = 20210830
"""Seed of the bootstrap's generator, so that the same folder always gives the same intervals."""

Z = 1.959963984540054
"""Quantile of the normal distribution with 2.5% above it."""

_CELLS = 2_000_000
"""Maximum number of draws held in memory at once."""


@dataclass(frozen=True)
class Interval:
    """A 95% interval of a mean."""

    low: float
    high: float
    kind: Kind

    @property
    def ends(self) -> tuple[float, float]:
        """Both ends of the interval."""
        return self.low, self.high


def wilson_interval(share: float, trials: int) -> Interval:
    """Return Wilson's score interval of a share of independent trials (Wilson 1927); 0 to 1 without trials.

    The interval is never empty, and stays honest at 0 of 5 and 5 of 5, where a bootstrap of five equal values would
    claim certainty.
    """
    if not trials:
        return Interval(0.0, 1.0, "wilson")
    centre = share + Z * Z / (2 * trials)
    spread = Z * np.sqrt(share * (1 - share) / trials + Z * Z / (4 * trials * trials))
    scale = 1 + Z * Z / trials
    return Interval(max(0.0, float((centre - spread) / scale)), min(1.0, float((centre + spread) / scale)), "wilson")


def newcombe_interval(share: float, trials: int, other: float, others: int) -> Interval:
    """Return the interval of `share - other` of independent samples, from Wilson's (Newcombe 1998, method 10)."""
    one, two = wilson_interval(share, trials), wilson_interval(other, others)
    below = np.hypot(share - one.low, two.high - other)
    above = np.hypot(one.high - share, other - two.low)
    return Interval(float(share - other - below), float(share - other + above), "wilson")


@dataclass(frozen=True)
class Confusion:
    """Counts of a judge's verdicts against the truth. Undecided verdicts are counted separately."""

    hits: int
    """Number of solved episodes judged solved."""
    false_alarms: int
    """Number of unsolved episodes judged solved."""
    misses: int
    """Number of solved episodes judged unsolved."""
    rejections: int
    """Number of unsolved episodes judged unsolved."""
    unknown: int = 0

    @classmethod
    def of(cls, pairs: Iterable[tuple[bool, bool | None]]) -> Confusion:
        """Count pairs of truth and verdict; a verdict of None is undecided."""
        counts = Counter(pairs)
        unknown = counts[True, None] + counts[False, None]
        return cls(counts[True, True], counts[False, True], counts[True, False], counts[False, False], unknown)

    @property
    def judged(self) -> int:
        """Number of episodes with a verdict."""
        return self.hits + self.false_alarms + self.misses + self.rejections

    @property
    def base_rate(self) -> float | None:
        """Share of the episodes with a verdict that were solved."""
        return _share(self.hits + self.misses, self.judged)

    @property
    def precision(self) -> float | None:
        """Share of the episodes judged solved that were solved; None if none was judged solved."""
        return _share(self.hits, self.hits + self.false_alarms)

    @property
    def recall(self) -> float | None:
        """Share of the solved episodes that were judged solved; None if none was solved."""
        return _share(self.hits, self.hits + self.misses)

    @property
    def kappa(self) -> float | None:
        """Agreement beyond chance (Cohen 1960): 0 is chance, 1 perfect. None if truth and verdicts are all the same."""
        n = self.judged
        said, true = self.hits + self.false_alarms, self.hits + self.misses
        chance = (said * true + (n - said) * (n - true)) / n**2 if n else 1.0
        return None if chance == 1 else ((self.hits + self.rejections) / n - chance) / (1 - chance)


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def unanimous(value: float, tasks: int, low: float, high: float) -> Interval:
    """Return the interval for tasks that all show the same value, where a bootstrap would have zero width.

    If none of n tasks differs, the share of all tasks that differ is at most Wilson's upper bound for 0 of n, and these
    may show any value between `low` and `high`. For a share of 0 or 1 this is Wilson's interval with tasks, not
    episodes, as its trials.
    """
    others = wilson_interval(0.0, tasks).high
    same = (1 - others) * value
    return Interval(same + others * low, same + others * high, "unanimous")


def draw_tasks_and_episodes(tasks: Sequence[int], resamples: int = RESAMPLES) -> Floats:
    """Draw resamples as counts `[resample, episode]`: the number of times that a resample contains an episode.

    Each resample draws as many tasks as there are, with replacement, and for every drawn task as many of its episodes
    as it has, with replacement.

    Args:
        tasks: task number of each episode.
        resamples: number of resamples.
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
    """Return the mean in every resample, `[resample, measure]`, of values `[episode, measure]`, ignoring NaN."""
    there = ~np.isnan(values)
    number = drawn @ there.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(drawn @ np.where(there, values, 0.0) / number, dtype=np.float64)


def percentiles(means: Floats) -> tuple[Floats, Floats]:
    """Return the middle 95% of every column of resampled means."""
    low, high = np.nanpercentile(means, [2.5, 97.5], axis=0)
    return low, high


def interval_over_tasks_and_episodes(
    values: Sequence[float], tasks: Sequence[int], low: float, high: float, drawn: Floats | None = None
) -> Interval | None:
    """Return the interval of a mean over episodes, by drawing tasks and, within each drawn task, its episodes.

    The bootstrap is hierarchical (Davison and Hinkley, Bootstrap Methods and their Application, 1997, section 3.8; for
    reinforcement learning Agarwal et al., Deep Reinforcement Learning at the Edge of the Statistical Precipice, 2021).
    Drawing at both levels counts the noise between seeds once more than drawing tasks alone, so the interval tends to
    be wide: with few seeds per task it contains the truth somewhat more often than 95 times in 100.

    Args:
        values: value of each episode.
        tasks: task number of each episode.
        low: lowest possible value.
        high: highest possible value.
        drawn: resamples of these episodes, to share one drawing among several measures.

    Returns:
        None without episodes. For a single task, Wilson's interval if values range from 0 to 1, too wide rather than
        too narrow for values in between, and None for any other range.
    """
    array, number = np.asarray(values, dtype=np.float64), len(set(tasks))
    if not len(array):
        return None
    mean = float(array.mean())
    if number == 1:
        return wilson_interval(mean, len(array)) if (low, high) == (0, 1) else None
    if np.ptp(array) == 0:
        return unanimous(mean, number, low, high)
    drawn = draw_tasks_and_episodes(tasks) if drawn is None else drawn
    below, above = percentiles(resampled_means(drawn, array[:, None]))
    return Interval(float(below[0]), float(above[0]), "bootstrap")


@dataclass(frozen=True)
class Mcnemar:
    """Counts of pairs by who solved them. McNemar's test itself would treat the pairs as independent."""

    both: int
    only_first: int
    only_other: int
    neither: int


def mcnemar(first: Sequence[bool], other: Sequence[bool]) -> Mcnemar:
    """Count the pairs by who solved them."""
    a, b = np.asarray(first, dtype=bool), np.asarray(other, dtype=bool)
    return Mcnemar(int((a & b).sum()), int((a & ~b).sum()), int((~a & b).sum()), int((~a & ~b).sum()))


def _by_task(values: Sequence[float], tasks: Sequence[int]) -> tuple[Floats, Floats]:
    """Return the sum and the number of each task's values."""
    _, group = np.unique(np.asarray(tasks), return_inverse=True)
    sums = np.bincount(group, weights=np.asarray(values, dtype=np.float64)).astype(np.float64)
    return sums, np.bincount(group).astype(np.float64)


def interval_over_tasks(differences: Sequence[float], tasks: Sequence[int], bound: float) -> Interval | None:
    """Return the 95% interval of the mean difference over pairs, by bootstrap over tasks with all their pairs.

    Seeds are not resampled within a task: both runs had the same seeds, and the noise between them is contained in the
    task's own difference. None with fewer than two tasks, which can't be resampled.

    Args:
        differences: difference of each pair.
        tasks: number of each pair's task, or of another unit of resampling.
        bound: maximum absolute difference; used if all differences are equal and a bootstrap has zero width.
    """
    sums, numbers = _by_task(differences, tasks)
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
    """Draw resamples of `count` tasks with one value each, which resamples only tasks."""
    return draw_tasks_and_episodes(range(count))


def sign_flip_over_tasks(differences: Sequence[int], tasks: Sequence[int]) -> float:
    """Return the exact two-sided p-value of a sign-flip test, clustered by task.

    If the two runs were alike, each task's summed difference could as well have had the other sign (Fisher 1935). The
    p-value is the share of all 2^tasks choices of signs with a sum at least as far from 0 as the observed sum.
    Differences of 0/1 successes are integers, so the distribution of the sum is computed exactly, task by task, without
    sampling.
    """
    sums, _ = _by_task(differences, tasks)
    sizes = np.abs(np.rint(sums)).astype(np.int64)
    reach, seen = int(sizes.sum()), abs(round(float(sums.sum())))
    chance = np.zeros(2 * reach + 1)
    chance[reach] = 1.0
    for size in sizes[sizes > 0]:
        chance = (np.roll(chance, size) + np.roll(chance, -size)) / 2  # no wrap-around: sums stay in range
    far = np.abs(np.arange(-reach, reach + 1)) >= seen
    return min(1.0, float(chance[far].sum()))


Episodes = Mapping[str, Mapping[tuple[int, int], bool]]
"""Outcomes of episodes by task and by (training seed, evaluation seed), True if solved."""


def interval_over_seeds(by_task: Episodes, draws: int = 10_000) -> Interval:
    """Return the interval of the mean over fixed tasks, by drawing training and evaluation seeds.

    All training seeds are judged on the same evaluation seeds, so the two are resampled independently (Owen, The
    pigeonhole bootstrap, 2007): training seeds, if there are several, for all tasks at once, and in each task the
    evaluation seeds for all training seeds at once. One training seed fewer is drawn than exists, because drawing all
    understates their variance, with two of them by half (Rao and Wu, 1988). Randomness in both is counted up to three
    times, so the interval tends to be wide; but with two or three training seeds it is poorly informed about their
    variance.

    A task whose episodes all ended alike would not vary in any draw. It gets one solved and one unsolved evaluation
    seed, by Laplace's rule of succession; they widen the draws, but the interval stays centred on the observed mean.
    """
    rng = np.random.default_rng(0)
    trained = sorted({seed for solved in by_task.values() for seed, _ in solved})
    if not trained:
        return Interval(0.0, 1.0, "bootstrap")
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
        with np.errstate(invalid="ignore"):  # a draw may contain only unjudged episodes
            drawn = (weights @ right * counts).sum(1) / (weights @ judged * counts).sum(1)
        deviations.append(drawn - right.sum() / judged.sum())
    there = ~np.isnan(deviations)
    with np.errstate(invalid="ignore"):
        means = np.nansum(deviations, axis=0) / there.sum(axis=0)
    low, high = np.mean(rates) + np.nanquantile(means, [0.025, 0.975])
    return Interval(max(0.0, float(low)), min(1.0, float(high)), "bootstrap")


def _table(solved: Mapping[tuple[int, int], bool], trained: Sequence[int]) -> NDArray[np.float64]:
    """Return the solved and the judged episodes, `[2, training seed, evaluation seed]`."""
    pages = sorted({page for _, page in solved})
    table = np.zeros((2, len(trained), len(pages)))
    for (seed, page), done in solved.items():
        table[:, trained.index(seed), pages.index(page)] = done, 1
    return table
