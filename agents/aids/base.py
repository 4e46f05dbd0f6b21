"""The interface of aids, and a base class of aids that compare the page before and after an action."""

from __future__ import annotations

from typing import ClassVar

from selfsurf.agents.guards.changes import Changes
from selfsurf.browser_env import Action, Observation

IDLE = ("wait", "message", "ask_user", "finish", "infeasible", "hover")
"""Actions that aren't expected to change the page."""


class Aid:
    """A memory of one episode that adds reports to the episode's prompts."""

    name: ClassVar[str]
    """Name of the aid in options."""

    def told(self, obs: Observation, goal: str) -> str:
        """Return the aid's report for the next prompt; empty for none."""
        raise NotImplementedError

    def did(self, action: Action, obs: Observation, entry: str) -> None:
        """Record an action chosen on the observed page, with its entry in the history."""
        raise NotImplementedError

    def look(self, obs: Observation) -> None:
        """Record the page just before the action: earlier changes are not the action's effects."""

    def take_back(self) -> None:
        """Forget the last recorded action, which was not executed."""

    def ended(self, *, reached: bool) -> None:
        """Record whether the episode reached its goal, as far as known."""


class Judging(Aid):
    """Base of aids that detect whether actions changed the page, as the guards do (`agents.guards.changes`)."""

    def __init__(self) -> None:
        self._changes = Changes()
        self._elements: object = None
        """Elements of the last observation."""
        self._acted = False
        """Whether an action was chosen since the last observation."""
        self._changed = True

    def look(self, obs: Observation) -> None:
        """Record the page just before the action: earlier changes are not the action's effects."""
        self._changes.look(obs)

    def see(self, obs: Observation, *, acts: bool = False) -> bool:
        """Return whether the last action changed the page, apart from the page's own changes.

        Args:
            obs: the observation after the action; may be passed again until an action is chosen on it.
            acts: whether an action is being chosen on the observation.
        """
        if self._acted or obs["elements"] is not self._elements:
            self._elements, self._changed = obs["elements"], self._changes.see(obs)
        self._acted = acts
        return self._changed
