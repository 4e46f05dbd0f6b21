"""Figures of a results folder for all episodes and by split, group and task; outcomes; curves.

Success is counted in two ways: strict if the task's own reward is 1, and lenient if it is above 0. Episodes that ended
as `env_error` are excluded from means and medians, and counted separately.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from selfsurf.browser_env.outcome import Outcome
from selfsurf.scripts.report.reading import AskedTask, Line, Results
from selfsurf.sdft.measure.statistics import Floats, Interval, draw_tasks_and_episodes, interval_over_tasks_and_episodes

FORMAT = 1
"""Format version of `report.json`."""

OUTCOMES = tuple(str(outcome) for outcome in Outcome if outcome is not Outcome.RUNNING)
"""All final outcomes of an episode, in display order."""

SPREADS = ("steps", "seconds", "agent_seconds", "env_seconds", "prompt_tokens", "completion_tokens")
"""Quantities reported as median and 90th percentile."""

_POINTS = 60
"""Maximum number of points of the curve against the step limit."""


@dataclass(frozen=True)
class Mean:
    """A mean over counted episodes."""

    mean: float
    episodes: int
    interval: Interval | None
    """95% interval of the mean; None for a single task's values outside 0 to 1, for which no valid one exists."""


@dataclass(frozen=True)
class MedianAndP90:
    """Median and 90th percentile over counted episodes."""

    median: float
    p90: float
    total: float


@dataclass(frozen=True)
class Row:
    """Figures of a set of episodes; None for a figure that no episode has."""

    name: str
    split: str
    groups: tuple[str, ...]
    tasks: int
    asked: int
    episodes: int
    """Number of episodes with a verdict, the denominator of every share."""
    env_errors: int
    unjudged: int
    """Number of episodes that were played to their end without a judge."""
    missing: int
    solved: int
    """Number of strictly solved episodes."""
    strict: Mean | None
    lenient: Mean | None
    reward: Mean | None
    time_reward: Mean | None
    claims: Mean | None
    """Share of episodes that the agent ended by claiming to be done."""
    false_claims: Mean | None
    """Share of episodes in which the agent falsely claimed to be done."""
    rejected: int
    """Number of claims that a verifier rejected."""
    wrongly_rejected: int | None
    """Number of rejected claims that were true; None if unknown."""
    steps: MedianAndP90 | None
    seconds: MedianAndP90 | None
    agent_seconds: MedianAndP90 | None
    env_seconds: MedianAndP90 | None
    prompt_tokens: MedianAndP90 | None
    completion_tokens: MedianAndP90 | None
    cost: float | None
    outcomes: dict[str, int]


@dataclass(frozen=True)
class StepPoint:
    """Success within a step limit: the shares that would have been solved with at most `steps` steps."""

    steps: int
    strict: float
    lenient: float
    interval: Interval | None
    """95% interval of `strict`, for this point alone."""


@dataclass(frozen=True)
class TimePoint:
    """Success so far after a given total of episode time."""

    seconds: float
    """Sum of the seconds of all episodes so far; with several workers, less wall-clock time passed."""
    episodes: int
    strict: float
    lenient: float


@dataclass(frozen=True)
class Summary:
    """All figures of a results folder."""

    results: Results
    overall: Row
    splits: tuple[Row, ...]
    groups: tuple[Row, ...]
    tasks: tuple[Row, ...]
    failures: tuple[Line, ...]
    """Counted episodes that are not strictly solved, by task and seed."""
    step_curve: tuple[StepPoint, ...]
    time_curve: tuple[TimePoint, ...]

    @property
    def parts(self) -> tuple[Row, ...]:
        """Rows of all tasks, the splits, and those groups that don't contain all tasks."""
        return (self.overall, *(row for row in (*self.splits, *self.groups) if row.tasks < self.overall.tasks))

    @property
    def complete(self) -> bool:
        """Whether no requested episode is missing."""
        return not self.results.missing

    @property
    def head(self) -> dict[str, Any]:
        """Folder, run and overall figures as plain data."""
        run, name = self.results.run.model_dump(mode="json"), self.results.folder.resolve().name
        return {"folder": name, "run": run, "overall": asdict(self.overall)}

    def as_json(self) -> dict[str, Any]:
        """Return the content of `report.json`."""
        results = self.results
        return {
            "format": FORMAT,
            **self.head,
            "complete": self.complete,
            "last_line_cut": results.cut,
            "episodes_per_minute": results.per_minute,
            **{name: [asdict(row) for row in getattr(self, name)] for name in ("splits", "groups", "tasks")},
            "missing": [{"task": task, "seed": seed} for task, seed in results.missing],
            "env_errors": [line.model_dump(mode="json") for line in results.env_errors],
            "superseded": [line.model_dump(mode="json") for line in results.superseded],
            "failures": [line.model_dump(mode="json") for line in self.failures],
            "curves": {
                "steps": [asdict(point) for point in self.step_curve],
                "time": [asdict(point) for point in self.time_curve],
            },
        }


def summarise(results: Results) -> Summary:
    """Compute all figures of a results folder."""
    tasks = results.run.tasks
    splits = list(dict.fromkeys(task.split for task in tasks if task.split))
    groups = sorted({group for task in tasks for group in task.groups})
    return Summary(
        results=results,
        overall=_row("all tasks", results, tasks),
        splits=tuple(_row(name, results, [task for task in tasks if task.split == name]) for name in splits),
        groups=tuple(_row(name, results, [task for task in tasks if name in task.groups]) for name in groups),
        tasks=tuple(_row(task.id, results, [task], task.split, task.groups) for task in tasks),
        failures=tuple(sorted((line for line in results.counted if not line.strict), key=lambda line: line.pair)),
        step_curve=_step_curve(results),
        time_curve=_time_curve(results.counted),
    )


def task_numbers(lines: Sequence[Line]) -> list[int]:
    """Return the task number of each episode."""
    number = {name: at for at, name in enumerate(dict.fromkeys(line.task for line in lines))}
    return [number[line.task] for line in lines]


def _row(name: str, results: Results, tasks: Sequence[AskedTask], split: str = "", groups: tuple[str, ...] = ()) -> Row:
    ids = {task.id for task in tasks}
    there = [line for line in results.lines if line.task in ids]
    lines = [line for line in there if line.counted]
    outcomes = Counter[str](line.outcome for line in there)
    drawn = draw_tasks_and_episodes(task_numbers(lines)) if len(tasks) > 1 and lines else None
    cost = [line.spent for line in there if line.spent is not None]

    def mean(what: str, low: float = 0) -> Mean | None:
        return _mean(lines, what, low, drawn)

    return Row(
        name=name,
        split=split,
        groups=groups,
        tasks=len(tasks),
        asked=len(tasks) * len(results.run.seeds),
        episodes=len(lines),
        env_errors=outcomes["env_error"],
        unjudged=len(there) - len(lines) - outcomes["env_error"],
        missing=sum(task in ids for task, _ in results.missing),
        solved=sum(line.strict for line in lines),
        strict=mean("strict"),
        lenient=mean("lenient"),
        reward=mean("reward"),
        time_reward=mean("time_reward", -1),
        claims=mean("claimed"),
        false_claims=mean("false_claim"),
        rejected=sum(line.rejected for line in lines),
        wrongly_rejected=_sum_if_known([line.wrongly_rejected for line in lines if line.rejected]),
        cost=sum(cost) if cost else None,
        outcomes={outcome: outcomes[outcome] for outcome in OUTCOMES if outcomes[outcome]},
        **{name: _spread(lines, name) for name in SPREADS},
    )


def _sum_if_known(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


def _mean(lines: Sequence[Line], what: str, low: float, drawn: Floats | None) -> Mean | None:
    having = [line for line in lines if getattr(line, what) is not None]
    values = [float(getattr(line, what)) for line in having]
    if not values:
        return None
    same = drawn if len(having) == len(lines) else None
    interval = interval_over_tasks_and_episodes(values, task_numbers(having), low, 1, same)
    return Mean(float(np.mean(values)), len(values), interval)


def _spread(lines: Sequence[Line], what: str) -> MedianAndP90 | None:
    values = [float(found) for line in lines if (found := getattr(line, what)) is not None]
    if not values:
        return None
    median, p90 = np.percentile(values, [50, 90])
    return MedianAndP90(float(median), float(p90), float(sum(values)))


def _step_curve(results: Results) -> tuple[StepPoint, ...]:
    """Return the share solved within k steps, for k up to the step limit or the longest episode."""
    lines = results.counted
    if not lines:
        return ()
    last = results.run.max_steps or max(1, *(line.steps for line in lines))
    numbers = task_numbers(lines)
    drawn = draw_tasks_and_episodes(numbers) if len(set(numbers)) > 1 else None
    points = []
    for limit in np.unique(np.linspace(1, last, min(last, _POINTS)).round().astype(int)).tolist():
        strict = [float(line.strict and line.steps <= limit) for line in lines]
        lenient = float(np.mean([line.lenient and line.steps <= limit for line in lines]))
        interval = interval_over_tasks_and_episodes(strict, numbers, 0, 1, drawn)
        points.append(StepPoint(limit, float(np.mean(strict)), lenient, interval))
    return tuple(points)


def _time_curve(lines: Sequence[Line]) -> tuple[TimePoint, ...]:
    seconds = np.cumsum([line.seconds for line in lines])
    strict, lenient = np.cumsum([line.strict for line in lines]), np.cumsum([line.lenient for line in lines])
    return tuple(
        TimePoint(float(time), number, float(solved / number), float(some / number))
        for number, (time, solved, some) in enumerate(zip(seconds, strict, lenient, strict=True), 1)
    )
