"""How an episode ended, in words: the task's reason, the criteria that were not met, and the limit that was reached."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from selfsurf.browser_env.text import visible_lines

if TYPE_CHECKING:
    from selfsurf.agents.play import Result
    from selfsurf.browser_env import Task


def why_ended(task: Task, result: Result, steps: int, limit: int, *, detail: bool = True) -> list[str]:
    """Return lines that say why an episode ended as it did.

    Args:
        task: what was to be done.
        result: of the episode.
        steps: that were taken.
        limit: most steps.
        detail: whether the outcome's detail is among them.
    """
    says = detail and result.detail and not (result.claimed or result.solved)
    lines = [visible_lines(result.detail)] if says else []
    lines += _not_met(task, result.score) or [visible_lines(one) for one in [reason_of(result.score)] if one]
    if result.outcome == "timeout" and steps >= limit:
        own = "" if task.max_steps else ", since the task sets no limit"
        lines.append(f"The limit of {limit} steps was reached{own}: --max-steps sets another.")
    return lines


def reason_of(score: dict[str, Any]) -> str:
    """Return the reason in a score's details; empty if the task gives none."""
    return str(score.get("reason") or "")


def _not_met(task: Task, score: dict[str, Any]) -> list[str]:
    """Say which criteria of a specified goal are `missed` or `unknown`, and why."""
    from selfsurf.tasks.goal import GoalTask

    if not isinstance(task, GoalTask) or "criteria" not in score:
        return []
    return [f"{one['found']}: {one['why']}" for one in score["criteria"] if one["found"] != "met"]
