"""Handling of `env_error`: whether the agent caused it, and whether anything works at all. Independent of workers.

An agent must not gain by crashing its pages. An infrastructure failure says nothing about the agent, unless it recurs
whenever the agent acts, with no other episode running beside it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from selfsurf.agents.play import EpisodeRequest, Result
from selfsurf.browser_env import Outcome
from selfsurf.scripts.suite.plan import Key
from selfsurf.scripts.suite.reasons import alike

CRASHES = 3
"""Number of `env_error` attempts during the agent's action, over all runs, after which an episode counts as failed.
After the first such attempt, the episode is played alone."""

FRUITLESS = 20
"""Number of consecutive `env_error` attempts after which a run is given up."""

TASKS = 3
"""Minimum number of distinct tasks (or all tasks, if fewer) that must end as `env_error` before a run in which nothing
worked is given up."""


@dataclass
class Attempts:
    """Counts of an episode's `env_error` attempts, over all runs."""

    env_errors: int = 0
    crashes: int = 0
    """Number of `env_error` attempts that failed during the agent's action."""
    lost_cost: float = 0.0
    """Cost of the `env_error` attempts in US dollars, as far as known."""


class Accounts:
    """The `env_error` counts of all episodes.

    Args:
        done: Latest record of each episode.
    """

    def __init__(self, done: Mapping[Key, Mapping[str, Any]]) -> None:
        self._attempts = {
            key: Attempts(record.get("env_errors", 0), record.get("crashes", 0), record.get("lost_cost", 0.0))
            for key, record in done.items()
        }

    def of(self, key: Key) -> Attempts:
        """Return the counts of an episode."""
        return self._attempts.setdefault(key, Attempts())

    def add(self, ask: EpisodeRequest, result: Result) -> None:
        """Count an attempt that ended as `env_error`; it becomes a failure after `CRASHES` crashes during actions."""
        account = self.of((ask.job.env_id, ask.job.seed))
        account.env_errors += 1
        account.crashes += result.crashed
        if result.crashed and account.crashes >= CRASHES:
            detail = f"env_error in {account.crashes} attempts during the agent's action: {result.detail}"
            result.end(Outcome.FAILED, trainable=False, detail=detail)
        else:
            account.lost_cost += result.cost or 0.0


class Health:
    """Detection of runs in which nothing works.

    An `env_error` counts as long as nothing has worked; later it counts only on a task that has worked, because one
    broken task is no reason to give up the others. Renewed failures of a task known to be broken don't count.

    Args:
        tasks: Tasks still to be played.
        worked: Tasks that worked before.
        broken: Tasks that failed while others worked.
    """

    def __init__(self, tasks: Iterable[str], worked: Collection[str], broken: Collection[str] = ()) -> None:
        self.alive = False
        """Whether any attempt has worked in this run."""
        self._least = min(TASKS, len(set(tasks)))
        self._worked = set(worked)
        self._broken = set(broken)
        self._reasons: dict[str, list[str]] = {}
        self._tasks: set[str] = set()

    def add(self, ask: EpisodeRequest, result: Result) -> str:
        """Record the end of an attempt; return why the run should end, or an empty string."""
        task = ask.job.env_id
        if not result.masked:
            self.alive = True
            self._worked.add(task)
            self._reasons.clear()
            self._tasks.clear()
        elif task in self._worked or (not self.alive and task not in self._broken):
            self._reasons.setdefault(alike(result.detail, task), []).append(result.detail)
            self._tasks.add(task)
        count = sum(map(len, self._reasons.values()))
        if count < FRUITLESS or (not self.alive and len(self._tasks) < self._least):
            return ""
        most = max(self._reasons.values(), key=len)
        return f"Nothing works: the last {count} attempts ended as env_error, {len(most)} of them with: {most[0]}"
