"""Summary of why episodes have no verdict or the agent's code raised, as a few lines for the terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from selfsurf.browser_env import Outcome
from selfsurf.browser_env.text import one_line
from selfsurf.scripts.report.formats import run_again

MOST = 3
"""Number of reasons that are shown."""

_SET_UP = re.compile(r"^The task .+? could not be set up: ")
_FRAME = re.compile(r'File "(.*?)([^"/]+)", line (\d+), in (\S+)')
_LIBRARIES = ("/site-packages/", "/browser_env/", "/lib/python")


def reasons(records: Iterable[Mapping[str, Any]], given_up: int) -> list[str]:
    """Return lines that count the episodes without a verdict and those in which the agent's code raised, by reason.

    Args:
        records: Latest record of each episode.
        given_up: Number of episodes without a verdict that the same command doesn't rerun.
    """
    records = list(records)
    lost = [record for record in records if record["outcome"] == Outcome.ENV_ERROR]
    raised = [record for record in records if record.get("agent_raised")]
    lines = []
    if raised:
        lines += [f"The agent's own code raised in {len(raised)} episodes; they count as failed.", *_counted(raised)]
    if lost:
        lines += [f"{len(lost)} episodes ended as env_error and have no verdict.", *_counted(lost)]
        lines += run_again(len(lost), given_up)
    return lines


def alike(reason: str, task: str) -> str:
    """Return a reason without the names and numbers that differ between tasks and episodes.

    Args:
        reason: Why an episode has no verdict.
        task: Task of the episode.
    """
    return re.sub(r"\d+", "0", _SET_UP.sub("", reason).replace(task, ""))


def _counted(records: list[Mapping[str, Any]]) -> list[str]:
    groups: dict[str, list[tuple[str, str]]] = {}
    for record in records:
        text = one_line(record["outcome_detail"]) + _place(record.get("traceback", ""))
        groups.setdefault(alike(text, record["task"]), []).append((record["task"], text))
    ordered = sorted(groups.values(), key=len, reverse=True)
    lines = []
    for group in ordered[:MOST]:
        tasks = len({task for task, _ in group})
        lines.append(f"  {len(group)} x {group[0][1]}" + f" ({tasks} tasks)" * (tasks > 1))
    left = sum(map(len, ordered[MOST:]))
    return [*lines, f"  {left} x other reasons: see report.md."] if left else lines


def _place(traceback: str) -> str:
    """Return the place where an error was raised: the last frame in the user's own code, if there is one."""
    frames = _FRAME.findall(traceback)
    own = [frame for frame in frames if not any(library in frame[0] for library in _LIBRARIES)]
    return " ({}, line {}, in {})".format(*(own or frames)[-1][1:]) if frames else ""
