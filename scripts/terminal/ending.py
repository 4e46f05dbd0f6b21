"""The end of an episode in words: the agent's answer, the task's reason, unmet criteria, the reached limit."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selfsurf.browser_env.text import visible_lines

if TYPE_CHECKING:
    from selfsurf.agents.play import Result
    from selfsurf.browser_env import Task


def answer_data(task: Task, result: Result) -> dict[str, Any]:
    """Return the answer in its requested form, under the key `data`; empty if no form was requested.

    `data` is None without an answer, and when redacting secrets broke the answer's form.
    """
    if task.answer_form is None:
        return {}
    data = None
    if result.claimed:
        with suppress(ValueError):
            data = task.answer_form.plain(result.answer)
    return {"data": data}


def headline(result: Result, start_status: int | None, episode: Path) -> str:
    """Return the outcome of an episode in words, with the agent's answer if the agent claims to be done.

    Args:
        result: Result of the episode.
        start_status: HTTP error status of the start page; None if it loaded.
        episode: Folder of the episode.
    """
    start = "" if start_status is None else f" The start page returned HTTP status {start_status}."
    answer = visible_lines(result.answer)  # the answer may contain text from a page
    if result.ending != "done":
        return f"{result.outcome}.{start} {answer}".strip()
    said = f"The agent says that it is done: {answer}" if answer else "The agent says that it is done."
    return f"{said}\nNobody has judged the episode: selfsurf judge {episode}, or selfsurf mark {episode} solved.{start}"


def why_ended(task: Task, result: Result, steps: int, limit: int, *, detail: bool = True) -> list[str]:
    """Return lines that explain why an episode ended as it did.

    Args:
        task: Task of the episode.
        result: Result of the episode.
        steps: Number of steps taken.
        limit: Maximum number of steps.
        detail: Whether to include the outcome's detail.
    """
    from selfsurf.browser_env import Task

    says = detail and result.detail and not (result.claimed or result.solved)
    last = "The last action failed: " if result.detail == result.last_error else ""
    lines = [last + visible_lines(result.detail)] if says else []
    if result.outcome == "infeasible" and not result.detail:
        lines.append("The agent gave no reason.")
    lines += _not_met(task, result.score) or [visible_lines(one) for one in [_said(result.score)] if one]
    if result.outcome == "timeout" and steps >= limit:
        own = "" if task.max_steps or type(task) is Task else ", because the task sets no limit"
        lines.append(f"The limit of {limit} steps was reached{own}. Use --max-steps to set another.")
    return lines


def reason_of(result: Result) -> str:
    """Return the task's reason for the outcome, or the agent's for an infeasible goal; empty if there is none."""
    return _said(result.score) or (result.detail if result.outcome == "infeasible" else "")


def _said(score: dict[str, Any]) -> str:
    return str(score.get("reason") or "")


def expected() -> tuple[type[Exception], ...]:
    """Return the exception types whose message is enough for a user, without a traceback."""
    from selfsurf.agents import PolicyError
    from selfsurf.agents.model_files import ModelError
    from selfsurf.browser_env import EnvError

    return PolicyError, EnvError, ModelError, ImportError, OSError, ValueError


def _not_met(task: Task, score: dict[str, Any]) -> list[str]:
    """Return the `missed` and `unknown` criteria of a specified goal, each with its reason."""
    from selfsurf.tasks.goal import GoalTask

    if not isinstance(task, GoalTask) or "criteria" not in score:
        return []
    return [f"{one['found']}: {one['why']}" for one in score["criteria"] if one["found"] != "met"]
