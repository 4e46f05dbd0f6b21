"""What a context is: a source of things to tell the teacher about a step that the student took."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from selfsurf.agents.play.job import Result, Step
from selfsurf.agents.prompt.prompt import DEMONSTRATION
from selfsurf.agents.reply.compact import as_written, compact
from selfsurf.agents.reply.kinds import Labels
from selfsurf.browser_env.actions import Action
from selfsurf.browser_env.observation import Element


@dataclass(frozen=True)
class Told:
    """What there is to tell about one step."""

    text: str
    """Goes to the end of the teacher's prompt."""
    action: str | None = None
    """The action that it calls right, in compact JSON as a student writes it; None where it names none."""


def told_action(
    action: Any, wording: str = DEMONSTRATION, *, labels: Labels = False, elements: Sequence[Element] = ()
) -> Told:
    """Tell an action as the correct one, in the words that the student would use.

    Args:
        action: in any form.
        wording: with `{action}` in it.
        labels: as in `TrainSettings`.
        elements: of the page.

    Raises:
        browser_env.errors.ActionError: the action is malformed.
    """
    reply = compact(action, labels=labels, elements=elements)
    return Told(wording.replace("{action}", reply), reply)


def given(action: Action, kinds: Collection[str] | None, step: Step) -> Action | None:
    """Return an action as a student could have given it.

    None where it could not: its kind was not offered (`kinds` of None: all are), what it names was not shown, or no
    reply says it. Files never are offered: training allows none.
    """
    written = as_written(action, step.observation)
    if written is None or (kinds is not None and action.name not in kinds):
        return None
    ids = {getattr(written, name, None) for name in ("id", "from_", "to")}
    return written if {id for id in ids if isinstance(id, int)} <= step.decision.visible_ids else None


class Context:
    """A source of things to tell."""

    name: ClassVar[str]
    """As in `TrainSettings.contexts`."""
    wording: str = DEMONSTRATION
    """How an action is told."""
    labels: Labels = False
    """As in `TrainSettings`: an action is told as the student writes it."""
    comes_later: ClassVar[bool] = False
    """May it be that there is nothing to tell at first, and something later?"""

    def can_speak(self, env_id: str) -> bool:
        """Can there ever be something to tell about a step of this task?"""
        return True

    def learn(self, results: Sequence[Result], batch: int) -> None:
        """Take note of the episodes of a batch, numbered from 0, before `tell` is asked about them."""

    def tell(self, result: Result, index: int) -> Told | None:
        """Return what there is to tell about the episode's step of this index, or None."""
        raise NotImplementedError

    def told(self, action: Action, step: Step) -> Told:
        """Tell an action as the correct one at a step."""
        return told_action(action, self.wording, labels=self.labels, elements=step.observation["elements"])
