"""What an aid is, and how a page before an action is compared with the one after it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

from selfsurf.browser_env import Action, Observation
from selfsurf.browser_env.observe.outline import without_focus

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

    def take_back(self) -> None:
        """Forget the action that was noted last: it was not carried out."""

    def ended(self, *, reached: bool) -> None:
        """Take note of the episode's end: whether the goal was reached, as far as anybody can tell."""


def state_of(obs: Observation) -> Hashable:
    """Return what is to be seen of a page, but for ids and the focus."""
    return obs["url"], len(obs["tabs"]), without_focus(obs["dom"], ids=False)
