"""What becomes of an `env_error`: whose doing it was, and whether anything works at all. Knows no workers.

An agent must not gain by killing its pages: a failure of the environment says nothing about the agent, unless it comes
each time that the agent acts, with nothing else beside it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from selfsurf.agents.play import Ask, Result
from selfsurf.browser_env import Outcome
from selfsurf.scripts.suite.plan import Key
from selfsurf.scripts.suite.reasons import alike

CRASHES = 3
"""Attempts at an episode, over all runs, that ended as `env_error` while the agent's action was being carried out,
after which it counts as failed. From the first of them on it is played alone."""

FRUITLESS = 20
"""Attempts in a row that ended as `env_error`, after which nothing seems to work."""

TASKS = 3
"""At so many tasks, or all there are, as long as nothing has worked yet."""


@dataclass
class Attempts:
    """How often an episode ended as `env_error`, over all runs."""

    env_errors: int = 0
    crashes: int = 0
    """Of these, while the agent's action was being carried out."""
    lost_cost: float = 0.0
    """US dollars that they cost, as far as it is known."""


class Accounts:
    """The `env_error` of each episode.

    Args:
        done: the records that there are.
    """

    def __init__(self, done: Mapping[Key, Mapping[str, Any]]) -> None:
        self._attempts = {
            key: Attempts(record.get("env_errors", 0), record.get("crashes", 0), record.get("lost_cost", 0.0))
            for key, record in done.items()
        }

    def of(self, key: Key) -> Attempts:
        """Return the account of an episode."""
        return self._attempts.setdefault(key, Attempts())

    def add(self, ask: Ask, result: Result) -> None:
        """Count an attempt that ended as `env_error`; once too often in the agent's action, it is a failure."""
        account = self.of((ask.job.env_id, ask.job.seed))
        account.env_errors += 1
        account.crashes += result.crashed
        if result.crashed and account.crashes >= CRASHES:
            detail = f"env_error in {account.crashes} attempts while its action was carried out: {result.detail}"
            result.end(Outcome.FAILED, trainable=False, detail=detail)
        else:
            account.lost_cost += result.cost or 0.0


class Health:
    """Whether a run gets anywhere.

    An `env_error` counts as long as nothing has worked, and later only at a task that has: a task that is broken is
    no reason to leave the others. That one which was broken before fails again says nothing at all.

    Args:
        tasks: those that are still to be played.
        worked: those that have worked before.
        broken: those that have failed while others worked.
    """

    def __init__(self, tasks: Iterable[str], worked: Collection[str], broken: Collection[str] = ()) -> None:
        self.alive = False
        """Whether anything has worked in this run."""
        self._least = min(TASKS, len(set(tasks)))
        self._worked = set(worked)
        self._broken = set(broken)
        self._reasons: dict[str, list[str]] = {}
        self._tasks: set[str] = set()

    def add(self, ask: Ask, result: Result) -> str:
        """Note how an attempt ended; return why the run should end, or nothing."""
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
