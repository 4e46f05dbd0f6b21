"""What a guard is, and how several are applied."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from selfsurf.browser_env import Action, Observation


@dataclass(frozen=True)
class Verdict:
    """What a guard makes of an action."""

    action: Action
    note: str = ""
    """What was overridden or noticed, and why, for the episode; empty when the action passed."""
    feedback: str = ""
    """What the next prompt tells the model."""


class Guard(ABC):
    """One check, with a memory of one episode."""

    name: ClassVar[str]
    """Its name in options and episodes."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """Actions that it replaced, `overridden`, and that it noted and let pass, `noticed`; without zeros."""
        self.reset()

    def reset(self) -> None:  # noqa: B027  (most have nothing to forget)
        """Begin a new episode."""

    def look(self, obs: Observation) -> None:  # noqa: B027
        """Take the page as it is just before the action: what has changed since the observation is the page's own."""

    def replaced(self, action: Action) -> None:  # noqa: B027
        """Forget the action that the guard has returned last: a later guard does another instead."""

    @abstractmethod
    def check(self, action: Action, obs: Observation, goal: str) -> Verdict:
        """Pass the action, override it, or only note something."""


def apply(guards: Sequence[Guard], action: Action, obs: Observation, goal: str) -> Verdict:
    """Apply the guards in turn, each to the action that the last one returned; count what they do, join their notes."""
    notes, feedback = [], []
    for place, guard in enumerate(guards):
        verdict = guard.check(action, obs, goal)
        if verdict.action != action:
            for earlier in guards[:place]:
                earlier.replaced(action)
        if verdict.action != action or verdict.note:
            guard.counts["noticed" if verdict.action == action else "overridden"] += 1
        action = verdict.action
        notes.append(verdict.note)
        feedback.append(verdict.feedback)
    return Verdict(action, " ".join(filter(None, notes)), " ".join(filter(None, feedback)))


def counts(guards: Sequence[Guard]) -> dict[str, int]:
    """Return what the guards did so far: `{"submit.overridden": 1, "vanished.noticed": 2}`, without zeros."""
    return {f"{guard.name}.{what}": number for guard in guards for what, number in guard.counts.items()}
