"""Small checks between the model's reply and the environment. Each says what it changed and why.

They belong to deployment: rollouts for training are made without, since on-policy data must be what was sampled.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from browser_env.actions import Action, Fill, Press, Scroll, Type, Wait
from browser_env.observation import Observation

_TYPING = re.compile(r"\b(enter|type|fill|write|input|search for|named|called)\b", re.IGNORECASE)
_QUOTED = re.compile(r"\"([^\"]+)\"|“([^”]+)”|(?<!\w)'([^']+)'(?!\w)")


@dataclass(frozen=True)
class Verdict:
    """What a guard makes of an action."""

    action: Action
    note: str = ""
    """What was overridden or noticed, and why; empty when the action passed."""


class Guard(Protocol):
    """One check, with a memory of one episode."""

    def reset(self) -> None:
        """Forget the last episode."""

    def check(self, action: Action, obs: Observation, goal: str) -> Verdict:
        """Pass the action, override it, or only remark on it."""


@dataclass
class EmptyText:
    """Nothing is typed where the goal asks for a text: the goal's only quoted text is typed instead."""

    overridden: int = 0

    def reset(self) -> None:
        """Nothing to forget."""

    def check(self, action: Action, obs: Observation, goal: str) -> Verdict:
        """See `Guard.check`."""
        if not isinstance(action, (Fill, Type)) or action.text.strip() or not _TYPING.search(goal):
            return Verdict(action)
        quoted = [next(group for group in found if group) for found in _QUOTED.findall(goal)]
        if len(quoted) != 1:
            return Verdict(action, "The text is empty, but the goal asks to type something.")
        self.overridden += 1
        return Verdict(
            action.model_copy(update={"text": quoted[0]}), f"The text was empty; typed {quoted[0]!r} from the goal."
        )


@dataclass
class Repetition:
    """The same action for the third time on a page that it didn't change: something else is tried instead."""

    limit: int = 2
    """How often an action may be tried on an unchanged page."""
    overridden: int = 0
    _page: tuple[Any, ...] | None = None
    _tried: dict[str, int] = field(default_factory=dict)

    def reset(self) -> None:
        """Forget what was tried."""
        self._page = None
        self._tried = {}

    def check(self, action: Action, obs: Observation, goal: str) -> Verdict:
        """See `Guard.check`."""
        page = (obs["url"], obs["dom"], tuple(element["bbox"] for element in obs["elements"]))
        if page != self._page:
            self._page, self._tried = page, {}
        if isinstance(action, Wait):
            return Verdict(action)
        if self._tried.get(action.to_json(), 0) < self.limit:
            self._count(action)
            return Verdict(action)
        for escape in self._escapes(obs):
            if self._tried.get(escape.to_json(), 0) < self.limit and escape != action:
                self._count(escape)
                self.overridden += 1
                return Verdict(
                    escape, f"{action.to_json()} changed nothing {self.limit} times; did {escape.to_json()} instead."
                )
        return Verdict(action, f"{action.to_json()} has changed nothing {self.limit} times.")

    def _count(self, action: Action) -> None:
        self._tried[action.to_json()] = self._tried.get(action.to_json(), 0) + 1

    @staticmethod
    def _escapes(obs: Observation) -> list[Action]:
        if all(element["in_viewport"] for element in obs["elements"]):
            return [Press(key="Escape")]
        return [Scroll(dy=400), Scroll(dy=-400), Press(key="Escape")]


@dataclass
class Vanished:
    """The element is gone or disabled: only noted, since the environment will say so as well."""

    def reset(self) -> None:
        """Nothing to forget."""

    def check(self, action: Action, obs: Observation, goal: str) -> Verdict:
        """See `Guard.check`."""
        number = getattr(action, "id", None)
        if number is None:
            return Verdict(action)
        element = next((element for element in obs["elements"] if element["id"] == number), None)
        if element is None:
            return Verdict(action, f"Element {number} is not on the page any more.")
        if "disabled" in element["states"]:
            return Verdict(action, f"Element {number} is disabled.")
        return Verdict(action)


def default_guards() -> list[Guard]:
    """The guards of one episode."""
    return [EmptyText(), Repetition(), Vanished()]


def apply(guards: Sequence[Guard], action: Action, obs: Observation, goal: str) -> Verdict:
    """Ask the guards in turn; notes are joined."""
    notes = []
    for guard in guards:
        verdict = guard.check(action, obs, goal)
        action = verdict.action
        if verdict.note:
            notes.append(verdict.note)
    return Verdict(action, " ".join(notes))
