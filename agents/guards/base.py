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
    """Note for the episode's record: what was overridden or noticed, and why; empty if the action passed."""
    feedback: str = ""
    """Message to the model in the next prompt; empty for none."""


class Guard(ABC):
    """Base class of guards: a check of each action, with state for one episode."""

    name: ClassVar[str]
    """Name of the guard in options and episodes."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """Number of actions replaced (`overridden`), and noted but passed (`noticed`); zeros are left out."""
        self.reset()

    def reset(self) -> None:  # noqa: B027  (most have nothing to forget)
        """Begin a new episode."""

    def heard(self, completion: Completion) -> None:  # noqa: B027
        """Receive the completion of the next action; called only for constrained replies with labels.

        Only for these is the completion's probability that of the chosen element or option.
        """

    def look(self, obs: Observation) -> None:  # noqa: B027
        """Receive the page as it is just before the action, including spontaneous changes since the observation."""

    def replaced(self, action: Action) -> None:  # noqa: B027
        """Forget the action that this guard last returned, because a later guard replaced it."""

    @abstractmethod
    def check(self, action: Action, obs: Observation, goal: str) -> Verdict:
        """Pass the action, override it, or only add a note."""


def apply(guards: Sequence[Guard], action: Action, obs: Observation, goal: str) -> Verdict:
    """Pass the action through the guards in turn, and return the final action with all notes and feedback.

    Interventions are counted in `Guard.counts`.
    """
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
