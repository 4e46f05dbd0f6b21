"""Measurement of one improvement cycle: failed runs, later solutions, training on both, and tries on other seeds.

The scenario's oracle solves the failed seeds in place of a person. Training uses both as `selfsurf train
--demonstrations` does with hindsight. The agent is tried with and without the adapter on seeds that were not played
before. Every stage saves its result in the folder, so that an interrupted measurement resumes.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from selfsurf.scripts.learning.oracles import record
from selfsurf.scripts.learning.stages import MeasureError, Stages
from selfsurf.scripts.terminal.console import progress, training_progress
from selfsurf.sdft.measure.statistics import newcombe_interval
from selfsurf.sdft.rollouts import Job, Result, Rollouts

FIRST_SEED = 6_000_000
"""First seed of the runs whose failures are learned from."""

FIRST_TRY = 6_500_000
"""First seed of the tries, which are not used for training."""

PARALLEL = 8
"""Number of concurrent episodes."""


def measure(
    scenarios: Sequence[str], out: Path, *, model: str, runs: int, tries: int, seed: int, changes: dict[str, Any]
) -> dict[str, Any]:
    """Run one improvement cycle.

    Args:
        scenarios: Names of the scenarios.
        out: Folder of the measurement.
        model: Model, as for `TransformersPolicy`.
        runs: Runs of each scenario, whose failures are learned from.
        tries: Tries of each scenario, on unused seeds.
        seed: Seed of training.
        changes: Training settings that differ from the defaults.

    Returns:
        `rows`: for each scenario the `failed` ones of `runs`, and the solved and judged tries `before` and `after`
        (infrastructure failures are not judged); `total`, the sums; `gain`, the difference of the success rates, with
        its
        95% interval `low`, `high` (Newcombe); `minutes` of training.

    Raises:
        MeasureError: The folder holds a measurement with other settings, nothing failed, or nothing was judged.
    """
    stages, tasks = Stages(out), [f"Scenario/{name}-v0" for name in scenarios]
    stages.settle({
        "scenarios": scenarios, "model": model, "runs": runs, "tries": tries, "seed": seed, "changes": changes,
    })  # fmt: skip
    with Rollouts(PARALLEL) as rollouts:
        play = partial(_play, rollouts, model, tasks)
        failed = stages.once("runs", lambda: _unsolved(play("Runs", FIRST_SEED, runs, out / "runs")))
        if not failed:
            raise MeasureError("No episode of these scenarios failed, so there is nothing to learn.")
        jobs = [Job(*one) for one in failed]
        stages.once("later", lambda: _unsolved(record(rollouts, jobs, out / "later")))
        before = stages.once("before", lambda: _solved(tasks, play("Before", FIRST_TRY, tries, out / "before")))
        learn = partial(_learned, out, model=model, seed=seed, changes=changes)
        minutes, adapter = stages.once("learned", learn)
        after = stages.once(
            "after", lambda: _solved(tasks, play("After", FIRST_TRY, tries, out / "after", adapter=adapter))
        )
    rows = [
        {"scenario": name, "failed": sum(one[0] == task for one in failed), "before": old, "after": new}
        for name, task, old, new in zip(scenarios, tasks, before, after, strict=True)
    ]
    total = {at: [sum(row[at][part] for row in rows) for part in (0, 1)] for at in ("before", "after")}
    (was, of), (then, of_then) = total["before"], total["after"]
    if not (of and of_then):
        raise MeasureError("No episode was judged: the infrastructure failed in all of them.")
    low, high = newcombe_interval(then / of_then, of_then, was / of, of).ends
    return {
        "model": model, "runs": runs, "tries": tries, "rows": rows, "total": total,
        "gain": then / of_then - was / of, "low": low, "high": high, "minutes": minutes,
    }  # fmt: skip


def _play(
    rollouts: Rollouts, model: str, tasks: Sequence[str], what: str, first: int, count: int, folder: Path,
    adapter: str | None = None,
) -> list[Result]:  # fmt: skip
    """Let the agent play every task on `count` seeds from `first` on."""
    from selfsurf import agents

    shutil.rmtree(folder, ignore_errors=True)  # left by an interrupted start
    agent: Any = agents.make("transformers", model=model, **({"adapter": adapter} if adapter else {}))
    jobs = [Job(task, number) for task in tasks for number in range(first, first + count)]
    with progress(what, len(jobs)) as told:
        results = rollouts.run(agent, jobs, folder=folder, progress=told)
    masked = {one.job.env_id: one.detail for one in results if one.masked}
    for task in masked.keys() - {one.job.env_id for one in results if not one.masked}:
        raise MeasureError(
            f"{what}: the infrastructure failed in all episodes of {task}: {masked[task]}. "
            "The same command tries again."
        )
    return results


def _learned(out: Path, *, model: str, seed: int, changes: dict[str, Any]) -> tuple[float, str]:
    """Train on the failures and the later solutions; return the minutes and the adapter's folder."""
    from selfsurf.sdft import TrainSettings, train
    from selfsurf.sdft.rows.jobs import as_recorded

    folders = [out / "runs", out / "later"]
    learned = {**as_recorded(folders, hindsight=True), "contexts": ("demonstration", "hindsight")}
    settings = TrainSettings(**{"model": model, "seed": seed, **learned, **changes})
    with training_progress("Learning", settings.steps) as update:
        summary = train(settings, out / "training", resume=True, progress=update)
    return summary["seconds"]["total"] / 60, summary["adapter"]


def _unsolved(results: Iterable[Result]) -> list[tuple[str, int]]:
    return [(one.job.env_id, one.job.seed) for one in results if not (one.solved or one.masked)]


def _solved(tasks: Sequence[str], results: Sequence[Result]) -> list[tuple[int, int]]:
    """Return the numbers of solved and of judged episodes for each task."""
    judged = [[one.solved for one in results if one.job.env_id == task and not one.masked] for task in tasks]
    return [(sum(solved), len(solved)) for solved in judged]
