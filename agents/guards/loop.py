"""No going round in circles."""

from __future__ import annotations

from collections.abc import Hashable

from selfsurf.agents.guards.base import Guard, Verdict
from selfsurf.agents.guards.escapes import escapes, instead
from selfsurf.agents.guards.page_state import action_key, page_state
from selfsurf.browser_env.actions import Action, Finish, Infeasible
from selfsurf.browser_env.observation import Observation


class Loop(Guard):
    """The same two to four actions on the same pages, a third time: something else is tried instead.

    So it goes on until the page changes or the model does something else; when all else was tried, its action is let
    through, and everything may be tried anew. The same single action is `Repetition`'s.

    Args:
        longest: most actions of a circle.
        rounds: how often a circle may be gone through.
    """

    name = "loop"

    def __init__(self, longest: int = 4, rounds: int = 2) -> None:
        self.longest = longest
        self.rounds = rounds
        super().__init__()

    def reset(self) -> None:
        """See `Guard.reset`."""
        self._past: list[Hashable] = []
        self._tried: set[Hashable] = set()

    def check(self, action: Action, obs: Observation, goal: str) -> Verdict:
        """See `Guard.check`."""
        page = page_state(obs, focus=False)
        step = hash((page, action_key(action, obs)))
        length = 0 if isinstance(action, (Finish, Infeasible)) else self._circle(step)
        told = f"The same {length} actions led back to the same page {self.rounds} times"
        for escape in escapes(obs) if length else []:
            other = hash((page, action_key(escape, obs)))
            if other not in self._tried and other not in self._past[-length:]:
                self._tried.add(other)
                return instead(escape, told)
        self._tried.clear()
        self._past = [*self._past, step][-self.longest * self.rounds :]
        return Verdict(action, f"{told}.", f"{told}. Do something else.") if length else Verdict(action)

    def _circle(self, step: Hashable) -> int:
        """The length of the circle that was gone through often enough and would begin anew; 0 if there is none."""
        for length in range(2, self.longest + 1):
            past = self._past[-length * self.rounds :]
            again = len(past) == length * self.rounds and past == past[:length] * self.rounds
            if again and past[0] == step and len(set(past)) > 1:
                return length
        return 0
