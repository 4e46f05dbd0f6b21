"""The context `oracle`: what the task's expert would have done, or has; and that of those who are told nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from selfsurf.agents.play.job import Result
from selfsurf.browser_env.actions import parse_action
from selfsurf.envs_registry import task_of
from selfsurf.sdft.teacher.context import Context, Told, given


class Oracle(Context):
    """The oracle's action at every step at which it has one that the student could have given.

    Args:
        kinds: the kinds of actions that the student is offered; None: all.
    """

    name: ClassVar[str] = "oracle"

    def __init__(self, kinds: Sequence[str] | None = None) -> None:
        self._kinds = kinds

    def can_speak(self, env_id: str) -> bool:
        """Is there an oracle for the task?"""
        return task_of(env_id).has_oracle

    def tell(self, result: Result, index: int) -> Told | None:
        """Tell the action."""
        step = result.steps[index]
        view = step.privileged
        if view is None:
            return None
        action = given(parse_action(view["action"]), self._kinds, step)
        return None if action is None else self.told(action, step)


class Done(Oracle):
    """What was done at the very state that the student is at (`sdft.rollouts.stored`)."""

    name: ClassVar[str] = "demonstration"


class Untold(Context):
    """Nothing is told, and every step is learned from: for those who learn without a teacher."""

    name: ClassVar[str] = "untold"

    def tell(self, result: Result, index: int) -> Told:
        """Tell nothing."""
        return Told("")
