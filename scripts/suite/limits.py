"""What a run may use up: time, tokens, money."""

from __future__ import annotations

import time

from selfsurf.agents.play import Result
from selfsurf.scripts.suite.plan import Plan

_UNKNOWN = "{} can't be kept: of {} it is not known what it used. {}"


class Limits:
    """Counts what a run uses, attempts that are made again included.

    Args:
        plan: has the limits.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._end: float | None = None
        self.tokens = 0
        self.cost = 0.0
        self.unknown = ""
        """Why a limit can't be kept."""

    def start(self) -> None:
        """Start the clock."""
        if self._plan.deadline is not None:
            self._end = time.monotonic() + self._plan.deadline

    def add(self, result: Result) -> None:
        """Count an attempt."""
        self.tokens += (result.prompt_tokens or 0) + (result.completion_tokens or 0)
        self.cost += result.cost or 0.0
        if result.masked or result.length <= result.led:
            return
        which = f"{result.job.env_id}, seed {result.job.seed},"
        if self._plan.max_tokens is not None and result.completion_tokens is None:
            self.unknown = _UNKNOWN.format("--max-tokens", which, "The agent's replies have no usage.")
        elif self._plan.max_cost is not None and result.cost is None:
            self.unknown = _UNKNOWN.format("--max-cost", which, "Give the policy its prices (docs/agents.md).")

    @property
    def metered(self) -> bool:
        """Is there a limit of tokens or money?"""
        return self._plan.max_tokens is not None or self._plan.max_cost is not None

    @property
    def late(self) -> bool:
        """Is the time over?"""
        return self._end is not None and time.monotonic() > self._end

    @property
    def reached(self) -> str:
        """Which limit is reached, as a sentence; nothing if none is."""
        plan = self._plan
        if self.late:
            return f"The deadline of {plan.deadline:g} s is over."
        if plan.max_tokens is not None and self.tokens >= plan.max_tokens:
            return f"The limit of {plan.max_tokens:,} tokens is reached ({self.tokens:,})."
        if plan.max_cost is not None and self.cost >= plan.max_cost:
            return f"The limit of ${plan.max_cost:g} is reached (${self.cost:.4f})."
        return ""
