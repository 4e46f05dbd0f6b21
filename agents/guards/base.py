"""The base class of guards, and a function that applies several guards to an action."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from selfsurf.agents.policy import Completion
from selfsurf.browser_env import Action, Observation


@dataclass(frozen=True)
class Verdict:
    """A guard's decision about an action."""

    action: Action
    note: str = ""
    """Note for the episode on what was overridden or noticed, and why; empty when the action passed."""
    feedback: str = ""
    """Message to the model in the next prompt; empty for none."""


class Guard(ABC):
    """A check of each action of one episode, with a memory of that episode."""

    name: ClassVar[str]
    """Name of the guard in options and episodes."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """Number of actions that the guard replaced (`overridden`) and noted but let pass (`noticed`), no zeros."""
        self.reset()

    def reset(self) -> None:  # noqa: B027  (most have nothing to forget)
        """Begin a new episode."""

    def heard(self, completion: Completion) -> None:  # noqa: B027
        """Receive the completion with the next action, if its probability is that of the chosen element or option."""

    def look(self, obs: Observation) -> None:  # noqa: B027
        """Receive the page just before the action. Its changes since the observation are spontaneous."""

    def replaced(self, action: Action) -> None:  # noqa: B027
        """Forget the action that this guard last returned, because a later guard replaced it."""

    @abstractmethod
    def check(self, action: Action, obs: Observation, goal: str) -> Verdict:
        """Pass the action, override it, or only add a note."""


def apply(guards: Sequence[Guard], action: Action, obs: Observation, goal: str) -> Verdict:
    """Apply the guards in turn, each to the previous one's action; count interventions, and join notes and feedback."""
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
    """Return how often each guard intervened: `{"submit.overridden": 1, "vanished.noticed": 2}`, without zeros."""
    return {f"{guard.name}.{what}": number for guard in guards for what, number in guard.counts.items()}
