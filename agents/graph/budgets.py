"""Budgets of a run: steps, tokens, seconds, dollars. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Budgets:
    """Limits of a run; None is unlimited. The environment's own step limit applies, too."""

    steps: int | None = None
    """Maximum number of actions."""
    tokens: int | None = None
    """Maximum number of tokens of prompts and replies together, over all calls of the model."""
    seconds: float | None = None
    """Maximum number of seconds in agent and environment, excluding people's time."""
    dollars: float | None = None
    """Maximum cost in US dollars; requires a policy with prices."""


def exhausted(budgets: Budgets, step: int, spent: Mapping[str, float]) -> str:
    """Describe the first exhausted budget in words; empty if none is exhausted."""
    used = {"steps": float(step), **spent}
    for name in ("steps", "tokens", "seconds", "dollars"):
        limit = getattr(budgets, name)
        if limit is not None and used.get(name, 0.0) >= limit:
            unit = name.removesuffix("s") if limit == 1 else name
            return f"the budget of {limit:g} {unit} is used up"
    return ""


def added(spent: Mapping[str, float], **more: float) -> dict[str, float]:
    """Return the amounts spent plus further amounts."""
    return {**spent, **{name: spent.get(name, 0.0) + value for name, value in more.items()}}
