"""What a guard is, and how several are asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from selfsurf.browser_env.actions import Action
from selfsurf.browser_env.observation import Observation


@dataclass(frozen=True)
class Verdict:
    """What a guard makes of an action."""

    action: Action
    note: str = ""
    """What was overridden or noticed, and why; empty when the action passed. For the episode."""
    feedback: str = ""
    """What the model is told in its next prompt."""


class Guard(ABC):
    """One check, with a memory of one episode. Counted by `apply`."""

    name: ClassVar[str]
    """As it stands in the episode."""

    def __init__(self) -> None:
        self.overridden = 0
        """Actions that it replaced."""
        self.noticed = 0
        """Actions that it remarked on and let pass."""
        self.reset()

    def reset(self) -> None:  # noqa: B027  (most have nothing to forget)
        """Forget what was seen of the page and done."""

    @abstractmethod
    def check(self, action: Action, obs: Observation, goal: str) -> Verdict:
        """Pass the action, override it, or only remark on it."""


def apply(guards: Sequence[Guard], action: Action, obs: Observation, goal: str) -> Verdict:
    """Ask the guards in turn, each about what the one before made of the action, and count; notes are joined."""
    notes, feedback = [], []
    for guard in guards:
        verdict = guard.check(action, obs, goal)
        guard.overridden += verdict.action != action
        guard.noticed += verdict.action == action and bool(verdict.note)
        action = verdict.action
        notes.append(verdict.note)
        feedback.append(verdict.feedback)
    return Verdict(action, " ".join(filter(None, notes)), " ".join(filter(None, feedback)))


def counts(guards: Sequence[Guard]) -> dict[str, int]:
    """What the guards did so far: `{"submit.overridden": 1, "vanished.noticed": 2}`, zeros left out."""
    found = {}
    for guard in guards:
        found[f"{guard.name}.overridden"] = guard.overridden
        found[f"{guard.name}.noticed"] = guard.noticed
    return {name: number for name, number in found.items() if number}
