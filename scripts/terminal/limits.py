"""What a command may use up: tokens, money, time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import typer
from pydantic import Field

from selfsurf.scripts.terminal.command import Arguments

MODELLESS = ("random", "oracle", "scripted")
"""Agents that ask no model."""

_UNKNOWN = "{} can't be kept: of {} it is not known what it used. {}"


@dataclass(frozen=True)
class Limits:
    """Limits of what is used; None is no limit."""

    max_tokens: int | None = None
    """Read and written."""
    max_cost: float | None = None
    """US dollars."""
    max_seconds: float | None = None

    @property
    def metered(self) -> bool:
        """Whether there is a limit of tokens or money."""
        return self.max_tokens is not None or self.max_cost is not None

    def reached(self, tokens: int, cost: float, seconds: float) -> str:
        """Return which limit is reached, as a sentence; empty if none is."""
        if self.max_seconds is not None and seconds >= self.max_seconds:
            return f"The limit of {self.max_seconds:g} s is reached."
        if self.max_tokens is not None and tokens >= self.max_tokens:
            return f"The limit of {self.max_tokens:,} tokens is reached ({tokens:,})."
        if self.max_cost is not None and cost >= self.max_cost:
            return f"The limit of ${self.max_cost:g} is reached (${cost:.4f})."
        return ""

    def unknown(self, tokens: int | None, cost: float | None, who: str) -> str:
        """Return why a limit can't be kept, as a sentence; empty if all can.

        Args:
            tokens: that were used; None where that is not known.
            cost: likewise.
            who: has used them.
        """
        if self.max_tokens is not None and tokens is None:
            return _UNKNOWN.format("--max-tokens", who, "The agent's replies have no usage.")
        if self.max_cost is not None and cost is None:
            return _UNKNOWN.format("--max-cost", who, "Give the policy its prices (docs/agents.md).")
        return ""

    def check(self, agent: str, options: Mapping[str, Any]) -> None:
        """Refuse limits that an agent can't keep.

        Raises:
            typer.BadParameter: it has no model, or one without prices where money is limited.
        """
        if agent in MODELLESS and self.metered:
            raise typer.BadParameter(f"The agent {agent} has no model, so --max-tokens and --max-cost limit nothing.")
        if self.max_cost is not None and ":" not in agent and not options.get("prices"):
            raise typer.BadParameter(
                "--max-cost needs the model's prices, in dollars a million tokens: --agent openai "
                """--set 'prices={"input": 0.15, "output": 0.6}'."""
            )


class LimitArguments(Arguments):
    """What an agent may use up for a goal. Reached limits end it before the model is asked again."""

    max_tokens: int | None = Field(default=None, ge=1)
    """Tokens, read and written, after which a goal is stopped."""
    max_cost: float | None = Field(default=None, gt=0)
    """US dollars, likewise."""
    max_seconds: float | None = Field(default=None, gt=0)
    """Seconds of agent and page, likewise; loading a model and waiting for people don't count."""

    @property
    def limits(self) -> Limits:
        """The limits."""
        return Limits(self.max_tokens, self.max_cost, self.max_seconds)
