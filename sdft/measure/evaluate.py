"""Summaries of episodes: success by task with intervals; infrastructure failures are counted separately."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from selfsurf.sdft.measure.statistics import interval_over_seeds, wilson_interval
from selfsurf.sdft.rollouts import Result


def summarise(results: Sequence[Result], groups: Mapping[str, Sequence[str]] | None = None) -> dict[str, Any]:
    """Summarize episodes.

    Returns:
        `tasks`: by id, `success` (share solved of the episodes that the infrastructure did not fail), its 95% interval
        `low`, `high`, `solved`, `episodes`, `env_errors`; `groups`: by name, the mean over the group's tasks with its
        interval, including the group `all`; `outcomes`; `steps` and `unreadable` (number of replies that contain no
        action).
    """
    by_task: dict[str, list[Result]] = {}
    for result in results:
        by_task.setdefault(result.job.env_id, []).append(result)
    tasks: dict[str, Any] = {}
    for task, episodes in by_task.items():
        judged = [episode for episode in episodes if not episode.masked]
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
    return {
        "tasks": tasks,
        "groups": {name: mean_over(results, ids) for name, ids in {"all": list(by_task), **(groups or {})}.items()},
        "outcomes": dict(Counter(result.outcome for result in results)),
        "steps": len(steps),
        "unreadable": sum(bool(step.decision.error) for step in steps),
    }


def mean_over(results: Sequence[Result], tasks: Sequence[str]) -> dict[str, float]:
    """Return the mean success over `tasks` with its 95% interval: `success`, `low`, `high`."""
    solved: dict[str, dict[tuple[int, int], bool]] = {task: {} for task in tasks}
    for number, result in enumerate(results):
        if result.job.env_id in solved and not result.masked:
            solved[result.job.env_id][0, number] = result.solved
    rates = [sum(flags.values()) / len(flags) for flags in solved.values() if flags]
    low, high = interval_over_seeds(solved).ends
    return {"success": sum(rates) / len(rates) if rates else 0.0, "low": low, "high": high}
