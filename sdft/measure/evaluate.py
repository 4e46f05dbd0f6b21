"""Measures an agent: success by task on given seeds, with intervals, infrastructure failures apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from selfsurf.agents.llm_agent import LLMAgent
from selfsurf.browser_env import Outcome
from selfsurf.sdft.measure.statistics import interval_over_seeds, wilson_interval
from selfsurf.sdft.rollouts import Job, Result, Rollouts


def evaluate(
    agent: LLMAgent,
    rollouts: Rollouts,
    tasks: Sequence[str],
    seeds: Sequence[int],
    *,
    demonstrate: bool = False,
    groups: Mapping[str, Sequence[str]] | None = None,
    folder: Path | None = None,
    meta: dict[str, Any] | None = None,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Run every task on every seed and summarise.

    Args:
        agent: what is measured.
        rollouts: the environments.
        tasks: Gymnasium ids.
        seeds: the same for every task.
        demonstrate: show the agent the oracle's next action.
        groups: named sets of tasks, whose means are wanted too.
        folder: write the episodes here.
        meta: goes into every episode.
        progress: called with the number of episodes that have ended.

    Returns:
        See `summarise`.
    """
    jobs = [Job(task, seed) for task in tasks for seed in seeds]
    results = rollouts.run(agent, jobs, demonstrate=demonstrate, folder=folder, meta=meta, progress=progress)
    return summarise(results, groups)


def summarise(results: Sequence[Result], groups: Mapping[str, Sequence[str]] | None = None) -> dict[str, Any]:
    """Summarise episodes.

    Returns:
        `tasks`: by id, `success` (share solved, of the episodes that the infrastructure did not fail), its 95%
        interval `low`, `high`, `solved`, `episodes`, `env_errors`; `groups`: by name, the mean over its tasks with its
        interval, and over `all`; `outcomes`; `steps` and `unreadable` (replies that were no action).
    """
    by_task: dict[str, list[Result]] = {}
    for result in results:
        by_task.setdefault(result.job.env_id, []).append(result)
    tasks: dict[str, Any] = {}
    for task, episodes in by_task.items():
        judged = [episode for episode in episodes if episode.outcome != Outcome.ENV_ERROR]
        solved = sum(episode.solved for episode in judged)
        low, high = wilson_interval(solved / len(judged) if judged else 0.0, len(judged)).ends
        tasks[task] = {
            "success": solved / len(judged) if judged else None,
            "low": low,
            "high": high,
            "solved": solved,
            "episodes": len(judged),
            "env_errors": len(episodes) - len(judged),
        }
    steps = [step for result in results for step in result.steps]
    outcomes: dict[str, int] = {}
    for result in results:
        outcomes[result.outcome] = outcomes.get(result.outcome, 0) + 1
    return {
        "tasks": tasks,
        "groups": {name: mean_over(results, ids) for name, ids in {"all": list(by_task), **(groups or {})}.items()},
        "outcomes": outcomes,
        "steps": len(steps),
        "unreadable": sum(bool(step.decision.error) for step in steps),
    }


def mean_over(results: Sequence[Result], tasks: Sequence[str]) -> dict[str, float]:
    """Return the mean success over `tasks` with its 95% interval: `success`, `low`, `high`."""
    solved: dict[str, dict[tuple[int, int], bool]] = {task: {} for task in tasks}
    for number, result in enumerate(results):
        if result.job.env_id in solved and result.outcome != Outcome.ENV_ERROR:
            solved[result.job.env_id][0, number] = result.solved
    rates = [sum(flags.values()) / len(flags) for flags in solved.values() if flags]
    low, high = interval_over_seeds(solved).ends
    return {"success": sum(rates) / len(rates) if rates else 0.0, "low": low, "high": high}
