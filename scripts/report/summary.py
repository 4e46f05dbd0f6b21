"""What a results folder comes to: figures for all episodes, a split, a group, a task; outcomes; curves.

Success is counted in two ways: strict, the task's own reward is whole, and lenient, it is above 0. Episodes that ended
as `env_error` are in no mean and no median; they are counted beside.
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
"""Version of `report.json`."""

OUTCOMES = tuple(str(outcome) for outcome in Outcome if outcome is not Outcome.RUNNING)
"""Every way an episode can have ended, in the order in which they are shown."""

SPREADS = ("steps", "seconds", "agent_seconds", "env_seconds", "prompt_tokens", "completion_tokens")
"""What has a median and a 90th percentile."""

_POINTS = 60
"""Most points of the curve against the step limit."""


@dataclass(frozen=True)
class Mean:
    """A mean over counted episodes."""

    mean: float
    episodes: int
    interval: Interval | None
    """None where there is no honest one: a single task's values that are not between 0 and 1."""


@dataclass(frozen=True)
class Spread:
    """Median and 90th percentile over counted episodes."""

    median: float
    p90: float
    total: float


@dataclass(frozen=True)
class Row:
    """The figures of a set of episodes. What no episode has is None."""

    name: str
    split: str
    groups: tuple[str, ...]
    tasks: int
    asked: int
    episodes: int
    """Counted: there, with a verdict. The denominator of every share."""
    env_errors: int
    unjudged: int
    """Played to their end, and judged by nothing."""
    missing: int
    solved: int
    """Strictly."""
    strict: Mean | None
    lenient: Mean | None
    reward: Mean | None
    time_reward: Mean | None
    claims: Mean | None
    """The share in which the agent ended it by saying that it is done."""
    false_claims: Mean | None
    """The share in which it said so, and was not."""
    rejected: int
    """Claims that a verifier rejected."""
    wrongly_rejected: int | None
    """Of these, those that were true; None where nobody knows."""
    steps: Spread | None
    seconds: Spread | None
    agent_seconds: Spread | None
    env_seconds: Spread | None
    prompt_tokens: Spread | None
    completion_tokens: Spread | None
    cost: float | None
    outcomes: dict[str, int]


@dataclass(frozen=True)
class StepPoint:
    """What would have been solved with at most so many steps."""

    steps: int
    strict: float
    lenient: float
    interval: Interval | None
    """Of strict, at this point alone."""


@dataclass(frozen=True)
class TimePoint:
    """How far the run was after so much episode time."""

    seconds: float
    """Of all episodes so far, added up: the clock on the wall went faster by the number of workers."""
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
    """Counted and not strictly solved, by task and seed."""
    step_curve: tuple[StepPoint, ...]
    time_curve: tuple[TimePoint, ...]

    @property
    def parts(self) -> tuple[Row, ...]:
        """All tasks, the splits, and the groups that do not hold all tasks again."""
        return (self.overall, *(row for row in (*self.splits, *self.groups) if row.tasks < self.overall.tasks))

    @property
    def complete(self) -> bool:
        """Every episode that was asked for is there."""
        return not self.results.missing

    @property
    def head(self) -> dict[str, Any]:
        """What was run and what it came to, as data."""
        run, name = self.results.run.model_dump(mode="json"), self.results.folder.resolve().name
        return {"folder": name, "run": run, "overall": asdict(self.overall)}

    def as_json(self) -> dict[str, Any]:
        """The content of `report.json`."""
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
    """Work out all figures of a results folder."""
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
    """Of each episode the number of its task."""
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


def _spread(lines: Sequence[Line], what: str) -> Spread | None:
    values = [float(found) for line in lines if (found := getattr(line, what)) is not None]
    if not values:
        return None
    median, p90 = np.percentile(values, [50, 90])
    return Spread(float(median), float(p90), float(sum(values)))


def _step_curve(results: Results) -> tuple[StepPoint, ...]:
    """Share solved within k steps, for k up to the step limit, or to the longest episode where there was none."""
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
