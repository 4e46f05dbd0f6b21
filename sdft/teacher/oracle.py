"""The context `oracle`: what the task's expert would have done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from selfsurf.browser_env.actions import parse_action
from selfsurf.envs_registry import task_of
from selfsurf.sdft.teacher.context import Context, Told, could_give, told_action

if TYPE_CHECKING:
    from selfsurf.sdft.rollouts import Result


class Oracle(Context):
    """The oracle's action at every step at which it has one that the student could have given.

    Args:
        kinds: the kinds of actions that the student is offered; None: all.
        reason: tell why, too.
    """

    name: ClassVar[str] = "oracle"

    def __init__(self, kinds: Sequence[str] | None = None, *, reason: bool = False) -> None:
        self._kinds = kinds
        self._reason = reason

    def can_speak(self, env_id: str) -> bool:
        """Is there an oracle for the task?"""
        return task_of(env_id).has_oracle

    def tell(self, result: Result, index: int) -> Told | None:
        """Tell the action."""
        step = result.steps[index]
        view = step.privileged
        if view is None:
            return None
        action = parse_action(view["action"])
        if not could_give(action, self._kinds, step.decision.visible_ids):
            return None
        return told_action(action, view["reason"] if self._reason else "", self.wording)
