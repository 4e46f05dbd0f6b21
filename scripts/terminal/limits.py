"""Limits of a command's tokens, cost and time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import typer
from pydantic import Field

from selfsurf.scripts.terminal.command import Arguments

MODELLESS = ("random", "oracle", "scripted")
"""Agents that use no model."""

_UNKNOWN = "{} can't be enforced: the usage of {} is unknown. {}"


@dataclass(frozen=True)
class Limits:
    """Limits of usage; None for no limit."""

    max_tokens: int | None = None
    """Maximum number of tokens, prompt and completion."""
    max_cost: float | None = None
    """Maximum cost in US dollars."""
    max_seconds: float | None = None

    @property
    def metered(self) -> bool:
        """Whether tokens or cost are limited."""
        return self.max_tokens is not None or self.max_cost is not None

    def reached(self, tokens: int, cost: float, seconds: float) -> str:
        """Return the limit that was reached, as a sentence; empty if none was."""
        if self.max_seconds is not None and seconds >= self.max_seconds:
            return f"The limit of {self.max_seconds:g} s is reached."
        if self.max_tokens is not None and tokens >= self.max_tokens:
            return f"The limit of {self.max_tokens:,} tokens is reached ({tokens:,})."
        if self.max_cost is not None and cost >= self.max_cost:
            return f"The limit of ${self.max_cost:g} is reached (${cost:.4f})."
        return ""

    def unknown(self, tokens: int | None, cost: float | None, who: str) -> str:
        """Return why a limit can't be enforced, as a sentence; empty if all can.

        Args:
            tokens: Number of tokens used; None if unknown.
            cost: US dollars spent; None if unknown.
            who: Name of the spender, for the message.
        """
        if self.max_tokens is not None and tokens is None:
            return _UNKNOWN.format("--max-tokens", who, "The agent's replies report no usage.")
        if self.max_cost is not None and cost is None:
            return _UNKNOWN.format("--max-cost", who, "Give the policy its prices (docs/agents.md).")
        return ""

    def check(self, agent: str, options: Mapping[str, Any]) -> None:
        """Refuse limits that can't be enforced for an agent.

        Raises:
            typer.BadParameter: The agent has no model, or the cost is limited and the model has no prices.
        """
        if agent in MODELLESS and self.metered:
            raise typer.BadParameter(f"The agent {agent} has no model, so --max-tokens and --max-cost limit nothing.")
        if self.max_cost is not None and ":" not in agent and not options.get("prices"):
            raise typer.BadParameter(
                "--max-cost needs the model's prices, in dollars per million tokens: --agent openai "
                """--set 'prices={"input": 0.15, "output": 0.6}'."""
            )


class LimitArguments(Arguments):
    """Limits of an agent's usage for a goal. A reached limit ends the goal before the model is queried again."""

    max_tokens: int | None = Field(default=None, ge=1)
    """Tokens, prompt and completion, after which a goal is stopped."""
    max_cost: float | None = Field(default=None, gt=0)
    """US dollars after which a goal is stopped."""
    max_seconds: float | None = Field(default=None, gt=0)
    """Seconds that agent and page may take before a goal is stopped; loading a model and waiting for people don't
    count."""

    @property
    def limits(self) -> Limits:
        """The limits."""
        return Limits(self.max_tokens, self.max_cost, self.max_seconds)
