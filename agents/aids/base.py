"""What an aid is, and how it knows what an action has changed."""

from __future__ import annotations

from typing import ClassVar

from selfsurf.agents.guards.changes import Changes
from selfsurf.browser_env import Action, Observation

IDLE = ("wait", "message", "ask_user", "finish", "infeasible", "hover")
"""Actions that need not change a page."""


class Aid:
    """Remembers one episode, and adds to its prompts."""

    name: ClassVar[str]
    """Its name in options."""

    def told(self, obs: Observation, goal: str) -> str:
        """Return what the next prompt says; empty for nothing."""
        raise NotImplementedError

    def did(self, action: Action, obs: Observation, entry: str) -> None:
        """Take note of an action that was chosen on this page, and its line in the history."""
        raise NotImplementedError

    def look(self, obs: Observation) -> None:
        """Take the page as it is just before the action: what has changed since the observation is the page's own."""

    def take_back(self) -> None:
        """Forget the action that was noted last: it was not carried out."""

    def ended(self, *, reached: bool) -> None:
        """Take note of the episode's end: whether the goal was reached, as far as anybody can tell."""


class Judging(Aid):
    """An aid that goes by what actions change, as the guards do (`agents.guards.changes`)."""

    def __init__(self) -> None:
        self._changes = Changes()
        self._elements: object = None
        """Of the observation that was seen last."""
        self._acted = False
        """Whether an action was chosen since."""
        self._changed = True

    def look(self, obs: Observation) -> None:
        """See `Aid.look`."""
        self._changes.look(obs)

    def see(self, obs: Observation, *, acts: bool = False) -> bool:
        """Take the page after an action; return whether anything but the page's own has changed.

        Args:
            obs: may be given again until an action is chosen on it.
            acts: an action is chosen on it now.
        """
        if self._acted or obs["elements"] is not self._elements:
            self._elements, self._changed = obs["elements"], self._changes.see(obs)
        self._acted = acts
        return self._changed
