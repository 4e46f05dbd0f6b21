"""Experts for MiniWoB++ tasks: from what the agent sees to its best next action, and one sentence why."""

from __future__ import annotations

from collections.abc import Callable

from browser_env.actions import Action
from browser_env.observation import Observation

Oracle = Callable[[Observation], Action | None]

ORACLES: dict[str, Oracle] = {}
