"""The context `oracle`, the recorded actions of offline runs, and the empty context of training without a teacher."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from selfsurf.agents.play.job import Result
from selfsurf.browser_env.actions import parse_action
from selfsurf.envs_registry import task_of
from selfsurf.sdft.teacher.context import PrivilegedContext, TeacherContext, given


class OracleContext(TeacherContext):
    """The oracle's action at every step where the student could have given it.

    Args:
        kinds: kinds of actions that the student is offered; None for all.
    """

    name: ClassVar[str] = "oracle"

    def __init__(self, kinds: Sequence[str] | None = None) -> None:
        self._kinds = kinds

    def can_speak(self, env_id: str) -> bool:
        """Whether the task has an oracle."""
        return task_of(env_id).has_oracle

    def tell(self, result: Result, index: int) -> PrivilegedContext | None:
        """Return the oracle's action at the step."""
        step = result.steps[index]
        view = step.privileged
        if view is None:
            return None
        action = given(parse_action(view["action"]), self._kinds, step)
        return None if action is None else self.told(action, step)


class RecordedActionContext(OracleContext):
    """The recorded action at exactly the student's state (`sdft.rows.stored_states`)."""

    name: ClassVar[str] = "demonstration"


class EmptyContext(TeacherContext):
    """An empty text for every step, so that training without a teacher learns from all steps."""

    name: ClassVar[str] = "untold"

    def tell(self, result: Result, index: int) -> PrivilegedContext:
        """Return an empty text."""
        return PrivilegedContext("")
