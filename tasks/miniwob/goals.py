"""Specifications of MiniWoB++ goals, written by hand, by the tasks' names; parameters are read from each goal."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from selfsurf.browser_env.goal.spec import GoalSpec, read_specs


@cache
def goal_specs() -> dict[str, GoalSpec]:
    """Return the specifications, e.g. of `"click-test"`."""
    return read_specs(Path(__file__).with_name("goals.toml"))
