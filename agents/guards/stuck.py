"""Guards against getting stuck: an action repeated without effect, or a loop of actions.

Both replace the action with one that may reveal something new (`_escapes`), and report the replacement to the model, so
that it isn't mistaken for the model's own choice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Any, ClassVar

from selfsurf.agents.guards.base import Guard, Verdict
from selfsurf.agents.guards.changes import Changes
from selfsurf.agents.reply.compact import compact
from selfsurf.browser_env import Action, Finish, Infeasible, Observation, Press, Scroll, Wait


class ChangeGuard(Guard):
    """Base of the guards that detect what actions change."""

    focus: ClassVar[bool] = True
    """Whether moving the focus by a key counts as a change."""

    def reset(self) -> None:
        """Forget the pages of the last episode."""
        self._changes = Changes(focus=self.focus)
        self.changed = True
        """Whether the last action changed the page; True before the first check."""

    def look(self, obs: Observation) -> None:
        """Treat all changes since the last observation as spontaneous."""
        self._changes.look(obs)


class Repetition(ChangeGuard):
    """Guard that replaces an action with an escape when it is tried a third time without having changed the page.

    Once all escapes have been tried twice, the action passes, and the counts start anew.
    """

    name = "repetition"
    limit = 2
    """Number of times that an action may be tried on an unchanged page."""

    def reset(self) -> None:
        """Forget the actions tried in the last episode."""
        super().reset()
        self._tried: Counter[str] = Counter()

    def replaced(self, action: Action) -> None:
        """Take back the count of an action that another guard replaced."""
        if self._tried[action.to_json()]:
            self._tried[action.to_json()] -= 1

    def check(self, action: Action, obs: Observation, goal: str) -> Verdict:
        """Replace an action that was already tried `limit` times on the unchanged page with the next escape."""
        self.changed = self._changes.see(obs)
        if self.changed:
            self._tried = Counter()
        if isinstance(action, Wait | Finish | Infeasible):  # waiting and claims may be repeated
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


class Loop(ChangeGuard):
    """Guard that replaces a loop of two to four actions on the same pages with escapes when it begins a third time.

    Escapes continue until the page changes or the model does something else. Once all have been tried, the model's
    action passes, and they may be tried again. `Repetition` handles single repeated actions.
    """

    name = "loop"
    longest = 4
    """Maximum number of actions in a loop."""
    rounds = 2
    """Number of times that a loop may be completed."""

    focus = False

    def reset(self) -> None:
        """Forget the steps of the last episode."""
        super().reset()
        self._past: list[tuple[int, tuple[Hashable, ...]]] = []
        """The last steps, as page hash and action key."""
        self._tried: set[Hashable] = set()

    def check(self, action: Action, obs: Observation, goal: str) -> Verdict:
        """Replace an action that would repeat a completed loop with the next escape."""
        self.changed = self._changes.see(obs)
        page = hash(self._changes.page)
        step = (page, action_key(action, obs))
        length = 0 if isinstance(action, (Finish, Infeasible)) else self._circle(step)
        reason = f"The same {length} actions led back to the same page {self.rounds} times"
        if len({done[:-1] for _, done in self._past[-length:]}) == 1:  # the same action, even if its element has moved
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
        """Return the length of the loop that the step would begin once more after `rounds` rounds; 0 for none."""
        for length in range(2, self.longest + 1):
            past = self._past[-length * self.rounds :]
            again = len(past) == length * self.rounds and past == past[:length] * self.rounds
            if again and past[0] == step and len(set(past)) > 1:
                return length
        return 0


def _escapes(obs: Observation) -> list[Action]:
    """Return harmless actions that may reveal something new, the most promising first."""
    last: list[Action] = [Press(key="Escape"), Wait(ms=1000)]
    if all(element["in_viewport"] for element in obs["elements"]):
        return last
    return [Scroll(dy=400), Scroll(dy=-400), *last]


def _instead(escape: Action, reason: str) -> Verdict:
    did = f"{reason}: did {compact(escape)} instead."
    return Verdict(escape, did, f"{did} Do something else.")


def action_key(action: Action, obs: Observation) -> tuple[Hashable, ...]:
    """Return a comparable key of an action, with its element's role, name, frame and box instead of the id."""
    data: dict[str, Any] = action.to_dict()
    number = getattr(action, "id", None)
    element = next((element for element in obs["elements"] if element["id"] == number), None)
    if element is not None:
        del data["id"]
        return repr(data), element["role"], element["name"], element["frame"], element["bbox"]
    return repr(data), None
