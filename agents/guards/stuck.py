"""Guards against getting stuck: the same action on a page that it doesn't change, or going round in circles.

Both replace the action with one that may reveal something new (`_escapes`), and tell the model what was done instead,
so that it doesn't take it for its own choice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Any, ClassVar

from selfsurf.agents.guards.base import Guard, Verdict
from selfsurf.agents.guards.changes import Changes
from selfsurf.agents.reply.compact import compact
from selfsurf.browser_env import Action, Finish, Infeasible, Observation, Press, Scroll, Wait


class Stuck(Guard):
    """Base of the guards that follow what actions change."""

    focus: ClassVar[bool] = True
    """As `Changes`."""

    def reset(self) -> None:
        """See `Guard.reset`."""
        self._changes = Changes(focus=self.focus)
        self.changed = True
        """Whether the last action has changed the page, as far as that is known."""

    def look(self, obs: Observation) -> None:
        """See `Guard.look`."""
        self._changes.look(obs)


class Repetition(Stuck):
    """The same action for the third time on a page that it didn't change is replaced by an escape.

    Once every escape was tried as often, the action passes, and all may be tried again.
    """

    name = "repetition"
    limit = 2
    """How often an action may be tried on an unchanged page."""

    def reset(self) -> None:
        """See `Guard.reset`."""
        super().reset()
        self._tried: Counter[str] = Counter()

    def replaced(self, action: Action) -> None:
        """See `Guard.replaced`."""
        if self._tried[action.to_json()]:
            self._tried[action.to_json()] -= 1

    def check(self, action: Action, obs: Observation, goal: str) -> Verdict:
        """See `Guard.check`."""
        self.changed = self._changes.see(obs)
        if self.changed:
            self._tried = Counter()
        if isinstance(action, Wait | Finish | Infeasible):  # a claim again is for whoever rejects it
            return Verdict(action)
        if self._tried[action.to_json()] < self.limit:
            self._tried[action.to_json()] += 1
            return Verdict(action)
        reason = f"{compact(action)} changed nothing {self.limit} times"
        for escape in _escapes(obs):
            if self._tried[escape.to_json()] < self.limit and escape != action:
                self._tried[escape.to_json()] += 1
                return _instead(escape, reason)
        self._tried = Counter({action.to_json(): 1})
        return Verdict(action, f"{reason}, nor did anything else.", f"{reason}. Do something else.")


class Loop(Stuck):
    """The same two to four actions on the same pages for the third time are replaced by escapes.

    That lasts until the page changes or the model does something else. Once every escape was tried, the model's action
    passes, and all may be tried again. A single repeated action is `Repetition`'s.
    """

    name = "loop"
    longest = 4
    """Most actions of a circle."""
    rounds = 2
    """How often a circle may be completed."""

    focus = False

    def reset(self) -> None:
        """See `Guard.reset`."""
        super().reset()
        self._past: list[tuple[int, tuple[Hashable, ...]]] = []
        """The last steps: hashes of pages, and what was done there."""
        self._tried: set[Hashable] = set()

    def check(self, action: Action, obs: Observation, goal: str) -> Verdict:
        """See `Guard.check`."""
        self.changed = self._changes.see(obs)
        page = hash(self._changes.page)
        step = (page, action_key(action, obs))
        length = 0 if isinstance(action, (Finish, Infeasible)) else self._circle(step)
        reason = f"The same {length} actions led back to the same page {self.rounds} times"
        if len({done[:-1] for _, done in self._past[-length:]}) == 1:  # wherever its element has moved
            way = "back and forth" if length == 2 else "round in a circle"
            reason = f"{compact(action)} has been done {length * self.rounds} times, and the page goes {way}"
        for escape in _escapes(obs) if length else []:
            other = (page, action_key(escape, obs))
            if other not in self._tried and other not in self._past[-length:]:
                self._tried.add(other)
                return _instead(escape, reason)
        self._tried.clear()
        self._past = [*self._past, step][-self.longest * self.rounds :]
        return Verdict(action, f"{reason}.", f"{reason}. Do something else.") if length else Verdict(action)

    def _circle(self, step: tuple[int, tuple[Hashable, ...]]) -> int:
        """The length of the circle that was completed often enough and would begin again; 0 if there is none."""
        for length in range(2, self.longest + 1):
            past = self._past[-length * self.rounds :]
            again = len(past) == length * self.rounds and past == past[:length] * self.rounds
            if again and past[0] == step and len(set(past)) > 1:
                return length
        return 0


def _escapes(obs: Observation) -> list[Action]:
    """Harmless actions that may reveal something new, the most promising first."""
    last: list[Action] = [Press(key="Escape"), Wait(ms=1000)]
    if all(element["in_viewport"] for element in obs["elements"]):
        return last
    return [Scroll(dy=400), Scroll(dy=-400), *last]


def _instead(escape: Action, reason: str) -> Verdict:
    did = f"{reason}: did {compact(escape)} instead."
    return Verdict(escape, did, f"{did} Do something else.")


def action_key(action: Action, obs: Observation) -> tuple[Hashable, ...]:
    """What an action does, its element identified by what it is instead of by its id; and at last where that is."""
    data: dict[str, Any] = action.to_dict()
    number = getattr(action, "id", None)
    element = next((element for element in obs["elements"] if element["id"] == number), None)
    if element is not None:
        del data["id"]
        return repr(data), element["role"], element["name"], element["frame"], element["bbox"]
    return repr(data), None
