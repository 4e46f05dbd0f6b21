"""Limits of a run, counted over all its attempts."""

from __future__ import annotations

import time

from selfsurf.agents.play import Result
from selfsurf.scripts.suite.plan import Plan
from selfsurf.scripts.terminal.limits import Limits


class RunLimits:
    """Usage of a run, repeated attempts included, and its limits.

    Args:
        plan: Plan with the limits.
    """

    def __init__(self, plan: Plan) -> None:
        self._limits = Limits(plan.max_tokens, plan.max_cost, plan.deadline)
        self._start: float | None = None
        self.tokens = 0
        self.cost = 0.0
        self.unknown = ""
        """Reason why a limit can't be enforced; empty if all can."""

    def start(self) -> None:
        """Start the clock."""
        self._start = time.monotonic()

    def add(self, result: Result) -> None:
        """Add the usage of an attempt."""
        self.tokens += (result.prompt_tokens or 0) + (result.completion_tokens or 0)
        self.cost += result.cost or 0.0
        if not result.masked and result.length > result.led:
            who = f"{result.job.env_id}, seed {result.job.seed},"
            self.unknown = self._limits.unknown(result.completion_tokens, result.cost, who) or self.unknown

    @property
    def metered(self) -> bool:
        """Whether tokens or cost are limited."""
        return self._limits.metered

    @property
    def late(self) -> bool:
        """Whether the deadline has passed."""
        most = self._limits.max_seconds
        return most is not None and self._seconds >= most

    @property
    def reached(self) -> str:
        """The limit that was reached, as a sentence; empty if none was."""
        return self._limits.reached(self.tokens, self.cost, self._seconds)

    @property
    def _seconds(self) -> float:
        return 0.0 if self._start is None else time.monotonic() - self._start
