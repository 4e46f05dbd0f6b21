"""Comparison of results folders: each against the first, on their common tasks and seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from selfsurf.scripts.report.formats import seeds
from selfsurf.scripts.report.reading import Line, Results, ResultsError
from selfsurf.scripts.report.summary import Summary, task_numbers
from selfsurf.sdft.measure.statistics import Interval, Mcnemar, interval_over_tasks, mcnemar, sign_flip_over_tasks

FORMAT = 1
"""Format version of `comparison.json`."""

FEWEST_TASKS = 6
"""Number of tasks below which a difference is tested by seed: with five, the exact test by task can't reach p < 0.0625.
"""


@dataclass(frozen=True)
class Difference:
    """Mean difference of another run minus the first, over common pairs of task and seed."""

    mean: float
    interval: Interval | None
    """95% interval of the mean; None for a single pair."""
    p: float | None
    """p value of the sign-flip test; None if values are not 0 or 1."""


@dataclass(frozen=True)
class Change:
    """Strict successes on one task in both runs, over the common seeds."""

    task: str
    pairs: int
    first: int
    other: int

    @property
    def difference(self) -> float:
        """Difference of the success rates, other run minus first."""
        return (self.other - self.first) / self.pairs


@dataclass(frozen=True)
class PairedComparison:
    """The comparison of one run with the first."""

    label: str
    pairs: int
    tasks: int
    unit: Literal["task", "seed"]
    """Unit of resampling and testing: the task, or the single pair if there are fewer than `FEWEST_TASKS` tasks; then
    the result holds for these tasks only."""
    left_out: int
    """Common pairs without a verdict in at least one of the runs."""
    first_rate: float
    other_rate: float
    strict: Difference
    lenient: Difference
    time_reward: Difference | None
    counts: Mcnemar
    """McNemar counts of strict success."""
    changes: tuple[Change, ...]
    """Changes of all common tasks, the largest first."""


@dataclass(frozen=True)
class Comparison:
    """A comparison of two or more runs."""

    summaries: tuple[Summary, ...]
    labels: tuple[str, ...]
    against: tuple[PairedComparison, ...]
    warnings: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Whether every run has all its episodes."""
        return all(summary.complete for summary in self.summaries)

    def as_json(self) -> dict[str, Any]:
        """Return the content of `comparison.json`."""
        return {
            "format": FORMAT,
            "complete": self.complete,
            "warnings": list(self.warnings),
            "runs": [{"label": label, **one.head} for label, one in zip(self.labels, self.summaries, strict=True)],
            "against_first": [
                {**asdict(each), "changes": [{**asdict(it), "difference": it.difference} for it in each.changes]}
                for each in self.against
            ],
        }


def compare(summaries: Sequence[Summary]) -> Comparison:
    """Compare every run with the first.

    Raises:
        ResultsError: A run has no counted pair of task and seed in common with the first.
    """
    labels = _labels([summary.results for summary in summaries])
    first = summaries[0].results
    others = list(zip(labels[1:], summaries[1:], strict=True))
    return Comparison(
        summaries=tuple(summaries),
        labels=labels,
        against=tuple(_against(label, first, other.results) for label, other in others),
        warnings=tuple(note for label, other in others for note in _warnings(labels[0], first, label, other.results)),
    )


def _against(label: str, first: Results, other: Results) -> PairedComparison:
    here = {line.pair: line for line in first.lines}
    lines = sorted(other.lines, key=lambda line: line.pair)
    pairs = [(here[line.pair], line) for line in lines if line.pair in here]
    counted = [(a, b) for a, b in pairs if a.counted and b.counted]
    if not counted:
        raise ResultsError(
            f"{first.folder} and {other.folder} have no judged task and seed in common, so there is nothing to "
            "compare. Run both with the same suite and seeds."
        )
    numbers = task_numbers([a for a, _ in counted])
    tasks = len(set(numbers))
    unit: Literal["task", "seed"] = "task" if tasks >= FEWEST_TASKS else "seed"
    timed = [pair for pair in counted if pair[0].time_reward is not None and pair[1].time_reward is not None]
    units = numbers if unit == "task" else range(len(counted))
    return PairedComparison(
        label=label,
        pairs=len(counted),
        tasks=tasks,
        unit=unit,
        left_out=len(pairs) - len(counted),
        first_rate=float(np.mean([a.strict for a, _ in counted])),
        other_rate=float(np.mean([b.strict for _, b in counted])),
        strict=_success([b.strict - a.strict for a, b in counted], units),
        lenient=_success([b.lenient - a.lenient for a, b in counted], units),
        time_reward=_timed(timed, unit) if timed else None,
        counts=mcnemar([a.strict for a, _ in counted], [b.strict for _, b in counted]),
        changes=_changes(counted),
    )


def _success(differences: Sequence[int], units: Sequence[int]) -> Difference:
    mean = float(np.mean(differences))
    return Difference(mean, interval_over_tasks(differences, units, 1), sign_flip_over_tasks(differences, units))


def _timed(pairs: Sequence[tuple[Line, Line]], unit: str) -> Difference:
    differences = [(b.time_reward or 0) - (a.time_reward or 0) for a, b in pairs]
    units = task_numbers([a for a, _ in pairs]) if unit == "task" else range(len(pairs))
    interval = interval_over_tasks(differences, units, 2)
    return Difference(float(np.mean(differences)), interval, None)


def _changes(pairs: Sequence[tuple[Line, Line]]) -> tuple[Change, ...]:
    changes = []
    for task in dict.fromkeys(a.task for a, _ in pairs):
        own = [(a.strict, b.strict) for a, b in pairs if a.task == task]
        changes.append(Change(task, len(own), sum(a for a, _ in own), sum(b for _, b in own)))
    return tuple(sorted(changes, key=lambda change: (-abs(change.difference), change.task)))


def _warnings(label: str, first: Results, other_label: str, other: Results) -> list[str]:
    notes = []
    for name, a, b in (
        ("suite", first.run.suite, other.run.suite),
        ("step limit", first.run.max_steps, other.run.max_steps),
        ("list of seeds", seeds(first.run.seeds), seeds(other.run.seeds)),
    ):
        if a != b:
            notes.append(f"The {name} differs: {label} has {a or 'none'}, {other_label} has {b or 'none'}.")
    if first.run.environment != other.run.environment:
        notes.append(f"The environment's settings differ between {label} and {other_label}.")
    here = {task.id: task for task in first.run.tasks}
    common = [(here[task.id], task) for task in other.run.tasks if task.id in here]
    if differ := sum(a.options != b.options for a, b in common):
        notes.append(f"The options of {differ} tasks differ between {label} and {other_label}.")
    if changed := [b.id for a, b in common if a.sha256 != b.sha256]:
        notes.append(f"The code or pages of {', '.join(changed)} differ between {label} and {other_label}.")
    return notes


def _labels(results: Sequence[Results]) -> tuple[str, ...]:
    """Return unique labels: the agents' names, with folder names or numbers where names repeat."""
    names = [each.run.agent.name for each in results]
    if len(set(names)) < len(names):
        folders = folder_names([each.folder for each in results])
        names = [f"{name} ({folder})" for name, folder in zip(names, folders, strict=True)]
    if len(set(names)) < len(names):
        names = [f"{at}. {name}" for at, name in enumerate(names, 1)]
    return tuple(names)


def folder_names(folders: Sequence[Path]) -> list[str]:
    """Return the name of each folder; if two are equal, the parts of the paths that differ."""
    paths = [list(folder.resolve().parts) for folder in folders]
    if len({path[-1] for path in paths}) == len(paths):
        return [path[-1] for path in paths]
    for end in (0, -1):
        while min(map(len, paths)) > 1 and len({path[end] for path in paths}) == 1:
            for path in paths:
                del path[end]
    return ["/".join(path) for path in paths]
