"""What a run may cost: steps, tokens, seconds, dollars. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Budgets:
    """The most that a run may take; None is without limit. The environment's own step limit ends it, too."""

    steps: int | None = None
    """Actions of the environment."""
    tokens: int | None = None
    """Of prompts and replies together, of all calls of the model."""
    seconds: float | None = None
    """In the agent and the environment, people's time left out."""
    dollars: float | None = None
    """Where the policy knows prices."""


def exhausted(budgets: Budgets, step: int, spent: Mapping[str, float]) -> str:
    """Return which budget is used up, in words; empty if none is."""
    used = {"steps": float(step), **spent}
    for name in ("steps", "tokens", "seconds", "dollars"):
        limit = getattr(budgets, name)
        if limit is not None and used.get(name, 0.0) >= limit:
            unit = name.removesuffix("s") if limit == 1 else name
            return f"the budget of {limit:g} {unit} is used up"
    return ""


def added(spent: Mapping[str, float], **more: float) -> dict[str, float]:
    """Return what was spent with more added."""
    return {**spent, **{name: spent.get(name, 0.0) + value for name, value in more.items()}}
