"""The context `oracle`: what the task's expert would have done."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from envs_registry import task_of
from sdft.contexts.context import Context, Told, told_action

if TYPE_CHECKING:
    from sdft.rollouts import Result


class Oracle(Context):
    """The oracle's action at every step at which it has one.

    Args:
        reason: tell why, too.
    """

    name: ClassVar[str] = "oracle"

    def __init__(self, *, reason: bool = False) -> None:
        self._reason = reason

    def can_speak(self, env_id: str) -> bool:
        """Is there an oracle for the task?"""
        return task_of(env_id).has_oracle

    def tell(self, result: Result, index: int) -> Told | None:
        """Tell the action."""
        view = result.steps[index].privileged
        if view is None:
            return None
        return told_action(view["action"], view["reason"] if self._reason else "", self.wording)
