"""Base of the teacher's contexts: sources of privileged information about a step of the student."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from selfsurf.agents.kinds import Labels
from selfsurf.agents.play.job import Result, Step
from selfsurf.agents.prompt.prompt import DEMONSTRATION
from selfsurf.agents.reply.compact import as_written, compact
from selfsurf.browser_env.actions import Action
from selfsurf.browser_env.observation import Element


@dataclass(frozen=True)
class PrivilegedContext:
    """Privileged information about one step."""

    text: str
    """Text appended to the teacher's prompt."""
    action: str | None = None
    """Action that the text calls right, in compact JSON as the student writes it; None if the text names no action."""


def told_action(
    action: Any, wording: str = DEMONSTRATION, *, labels: Labels = False, elements: Sequence[Element] = ()
) -> PrivilegedContext:
    """Present an action as the correct one, in the format of the student's replies.

    Args:
        action: the action in any form.
        wording: text that contains `{action}`.
        labels: as in `TrainSettings`.
        elements: elements of the page.

    Raises:
        browser_env.errors.ActionError: the action is malformed.
    """
    reply = compact(action, labels=labels, elements=elements)
    return PrivilegedContext(wording.replace("{action}", reply), reply)


def given(action: Action, kinds: Collection[str] | None, step: Step) -> Action | None:
    """Return an action as the student could have given it, or None if it couldn't.

    The student couldn't if the action's kind was not offered (`kinds` of None offers all), an element of the action was
    not visible, or no reply can express the action. File uploads are never offered: training forbids them.
    """
    written = as_written(action, step.observation)
    if written is None or (kinds is not None and action.name not in kinds):
        return None
    ids = {getattr(written, name, None) for name in ("id", "from_", "to")}
    return written if {id for id in ids if isinstance(id, int)} <= step.decision.visible_ids else None


class TeacherContext:
    """Base of the sources of privileged information for the teacher."""

    name: ClassVar[str]
    """Name of the context in `TrainSettings.contexts`."""
    wording: str = DEMONSTRATION
    """Wording that presents an action to the teacher."""
    labels: Labels = False
    """Value of `TrainSettings.labels`, so that an action is presented as the student writes it."""
    comes_later: ClassVar[bool] = False
    """Whether the context may be empty at first and get information later in the run."""

    def can_speak(self, env_id: str) -> bool:
        """Whether the context can ever have information about a step of the task."""
        return True

    def learn(self, results: Sequence[Result], batch: int) -> None:
        """Take in the episodes of a batch, numbered from 0, before `tell` is called for them."""

    def tell(self, result: Result, index: int) -> PrivilegedContext | None:
        """Return the information about the episode's step at `index`, or None."""
        raise NotImplementedError

    def told(self, action: Action, step: Step) -> PrivilegedContext:
        """Present an action as the correct one at a step."""
        return told_action(action, self.wording, labels=self.labels, elements=step.observation["elements"])
