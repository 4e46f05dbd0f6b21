"""Every interval and test of this project, each named for what it resamples.

Episodes of one task resemble each other, so 125 tasks x 5 seeds are not 625 independent trials, and an interval that
takes them for such is too narrow. What is a sample and what is given decides which interval is right:

- `wilson_interval`: one share of independent trials, nothing resampled; `newcombe_interval`: the difference of two;
- `interval_over_tasks_and_episodes`: a benchmark's mean; tasks are a sample of tasks, seeds one of each task's pages;
- `interval_over_tasks` and `sign_flip_over_tasks`: the difference of two runs on the same tasks and seeds;
- `Confusion`: a judge against the truth, nothing resampled;
- `interval_over_seeds`: training and evaluation seeds are samples, tasks are given.

All intervals hold 95%.
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

    @property
    def ends(self) -> tuple[float, float]:
        """Both."""
        return self.low, self.high


def wilson_interval(share: float, trials: int) -> Interval:
    """Wilson's score interval of a share of independent trials (Wilson 1927); 0 to 1 without any.

    Never empty, and honest at 0 of 5 and at 5 of 5, where a bootstrap of five equal values would claim certainty.
    """
    if not trials:
        return Interval(0.0, 1.0, "wilson")
    centre = share + Z * Z / (2 * trials)
    spread = Z * np.sqrt(share * (1 - share) / trials + Z * Z / (4 * trials * trials))
    scale = 1 + Z * Z / trials
    return Interval(max(0.0, float((centre - spread) / scale)), min(1.0, float((centre + spread) / scale)), "wilson")


def newcombe_interval(share: float, trials: int, other: float, others: int) -> Interval:
    """The interval of `share - other`, two samples of independent trials, from Wilson's (Newcombe 1998, method 10)."""
    one, two = wilson_interval(share, trials), wilson_interval(other, others)
    below = np.hypot(share - one.low, two.high - other)
    above = np.hypot(one.high - share, other - two.low)
    return Interval(float(share - other - below), float(share - other + above), "wilson")


@dataclass(frozen=True)
class Confusion:
    """How a judge's verdicts agree with the truth. Those who could not tell are counted apart."""

    hits: int
    """Solved, and said to be."""
    false_alarms: int
    """Not solved, but said to be."""
    misses: int
    """Solved, but said not to be."""
    rejections: int
    """Not solved, and said not to be."""
    unknown: int = 0

    @classmethod
    def of(cls, pairs: Iterable[tuple[bool, bool | None]]) -> Confusion:
        """Count pairs of truth and verdict; None is a verdict that says nothing."""
        counts = Counter(pairs)
        unknown = counts[True, None] + counts[False, None]
        return cls(counts[True, True], counts[False, True], counts[True, False], counts[False, False], unknown)

    @property
    def judged(self) -> int:
        """How many have a verdict."""
        return self.hits + self.false_alarms + self.misses + self.rejections

    @property
    def base_rate(self) -> float | None:
        """Share of those with a verdict that were solved."""
        return _share(self.hits + self.misses, self.judged)

    @property
    def precision(self) -> float | None:
        """Share of those said to be solved that were; None: none was."""
        return _share(self.hits, self.hits + self.false_alarms)

    @property
    def recall(self) -> float | None:
        """Share of the solved ones that were said to be; None: none was solved."""
        return _share(self.hits, self.hits + self.misses)

    @property
    def kappa(self) -> float | None:
        """Agreement beyond chance (Cohen 1960): 0 is chance, 1 is perfect; None: truth or verdicts are all the same."""
        n = self.judged
        said, true = self.hits + self.false_alarms, self.hits + self.misses
        chance = (said * true + (n - said) * (n - true)) / n**2 if n else 1.0
        return None if chance == 1 else ((self.hits + self.rejections) / n - chance) / (1 - chance)


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def unanimous(value: float, tasks: int, low: float, high: float) -> Interval:
    """The interval where every task shows the same value, and a bootstrap would have no width.

    If none of n tasks differs, at most Wilson's upper bound for 0 of n of all tasks do, and those may show anything
    between `low` and `high`. For a share of 0 or 1 this is Wilson's interval with tasks, not episodes, as its trials.
    """
    others = wilson_interval(0.0, tasks).high
    same = (1 - others) * value
    return Interval(same + others * low, same + others * high, "unanimous")


def draw_tasks_and_episodes(tasks: Sequence[int], resamples: int = RESAMPLES) -> Floats:
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


def interval_over_tasks_and_episodes(
    values: Sequence[float], tasks: Sequence[int], low: float, high: float, drawn: Floats | None = None
) -> Interval | None:
    """The interval of a mean over episodes, by drawing tasks and, inside each drawn task, its episodes.

    The bootstrap is hierarchical (Davison and Hinkley, Bootstrap Methods and their Application, 1997, section 3.8; for
    reinforcement learning Agarwal et al., Deep Reinforcement Learning at the Edge of the Statistical Precipice, 2021).
    Drawing at both levels counts the noise between seeds once more than drawing tasks alone, so the interval leans to
    the wide side: with few seeds a task it holds the truth somewhat more often than 95 times in 100.

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
        return wilson_interval(mean, len(array)) if (low, high) == (0, 1) else None
    if np.ptp(array) == 0:
        return unanimous(mean, number, low, high)
    drawn = draw_tasks_and_episodes(tasks) if drawn is None else drawn
    below, above = percentiles(resampled_means(drawn, array[:, None]))
    return Interval(float(below[0]), float(above[0]), "bootstrap")


@dataclass(frozen=True)
class Mcnemar:
    """Pairs by who solved them: what a difference is made of. His test itself would take pairs for independent."""

    both: int
    only_first: int
    only_other: int
    neither: int


def mcnemar(first: Sequence[bool], other: Sequence[bool]) -> Mcnemar:
    """Count the pairs by who solved them."""
    a, b = np.asarray(first, dtype=bool), np.asarray(other, dtype=bool)
    return Mcnemar(int((a & b).sum()), int((a & ~b).sum()), int((~a & b).sum()), int((~a & ~b).sum()))


def _by_task(values: Sequence[float], tasks: Sequence[int]) -> tuple[Floats, Floats]:
    """Sum and number of the values of every task."""
    _, group = np.unique(np.asarray(tasks), return_inverse=True)
    sums = np.bincount(group, weights=np.asarray(values, dtype=np.float64)).astype(np.float64)
    return sums, np.bincount(group).astype(np.float64)


def interval_over_tasks(differences: Sequence[float], tasks: Sequence[int], bound: float) -> Interval | None:
    """The 95% interval of the mean difference over pairs, by bootstrap over tasks with all their pairs.

    Seeds are not drawn again inside a task: both runs had the same ones, and what they differ by there is in the
    task's own difference. None with fewer than two tasks, over which nothing can be resampled.

    Args:
        differences: one a pair.
        tasks: of each pair, the number of its task, or of another unit that is drawn.
        bound: how far a difference can be from 0; used where all pairs differ alike and a bootstrap has no width.
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
    """Resamples of so many tasks, with one value each: that draws tasks alone."""
    return draw_tasks_and_episodes(range(count))


def sign_flip_over_tasks(differences: Sequence[int], tasks: Sequence[int]) -> float:
    """The exact two-sided p of a sign-flip test, clustered by task.

    If the two runs were alike, each task's summed difference could as well have had the other sign (Fisher 1935). p is
    the share of all 2^tasks choices of signs with a sum at least as far from 0 as the one seen. Differences of 0/1
    successes are whole numbers, so the distribution of the sum comes out exactly, task by task, without sampling.
    """
    sums, _ = _by_task(differences, tasks)
    sizes = np.abs(np.rint(sums)).astype(np.int64)
    reach, seen = int(sizes.sum()), abs(round(float(sums.sum())))
    chance = np.zeros(2 * reach + 1)
    chance[reach] = 1.0
    for size in sizes[sizes > 0]:
        chance = (np.roll(chance, size) + np.roll(chance, -size)) / 2  # never wraps: the sum stays within its reach
    far = np.abs(np.arange(-reach, reach + 1)) >= seen
    return min(1.0, float(chance[far].sum()))


Episodes = Mapping[str, Mapping[tuple[int, int], bool]]
"""By task: whether the episode of (training seed, evaluation seed) was solved."""


def interval_over_seeds(by_task: Episodes, draws: int = 10_000) -> Interval:
    """The interval of the mean over tasks, which are given and no sample, by drawing training and evaluation seeds.

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
        with np.errstate(invalid="ignore"):  # a draw of nothing but episodes that were not judged
            drawn = (weights @ right * counts).sum(1) / (weights @ judged * counts).sum(1)
        deviations.append(drawn - right.sum() / judged.sum())
    there = ~np.isnan(deviations)
    with np.errstate(invalid="ignore"):
        means = np.nansum(deviations, axis=0) / there.sum(axis=0)
    low, high = np.mean(rates) + np.nanquantile(means, [0.025, 0.975])
    return Interval(max(0.0, float(low)), min(1.0, float(high)), "bootstrap")


def _table(solved: Mapping[tuple[int, int], bool], trained: Sequence[int]) -> NDArray[np.float64]:
    """Return what was solved and what was judged, `[2, training seed, evaluation seed]`."""
    pages = sorted({page for _, page in solved})
    table = np.zeros((2, len(trained), len(pages)))
    for (seed, page), done in solved.items():
        table[:, trained.index(seed), pages.index(page)] = done, 1
    return table
