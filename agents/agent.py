"""What an agent is: observations in, actions out. It never touches a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

from selfsurf.browser_env.actions import Action
from selfsurf.browser_env.observation import Observation

Act: TypeAlias = Action | str
"""What `act` returns. A str is a reply that could not be read as an action: the environment answers it with an
error, so the mistake costs a step and the next prompt reports it."""

Privileged: TypeAlias = dict[str, Any]
"""What the task's oracle would do and why: `{"action": {...}, "reason": str}`, from `env.unwrapped.privileged()`."""


class Agent(Protocol):
    """Chooses actions. A slot is one of several episodes that run at the same time."""

    def reset(self, goal: str, slot: int = 0) -> None:
        """Begin a new episode in `slot`, forgetting the last one. An empty goal means `obs["goal"]`."""

    def act(self, obs: Observation) -> Act:
        """Choose the next action of slot 0."""

    def act_batch(self, observations: Sequence[Observation], slots: Sequence[int] | None = None) -> list[Act]:
        """Choose the next action of several episodes; `slots` defaults to 0, 1, 2, ..."""
