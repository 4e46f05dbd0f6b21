"""Handwritten specifications of MiniWoB++ goals, by task name. Their parameters are read from each goal."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from selfsurf.browser_env.goal.spec import GoalSpec, read_specs


@cache
def goal_specs() -> dict[str, GoalSpec]:
    """Return the specifications by task name, such as `"click-test"`."""
    return read_specs(Path(__file__).with_name("goals.toml"))
