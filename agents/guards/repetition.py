"""No action again and again that changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from selfsurf.agents.guards.base import Guard, Verdict
from selfsurf.agents.guards.escapes import escapes, instead
from selfsurf.agents.guards.page_state import page_state
from selfsurf.agents.reply.compact import compact
from selfsurf.browser_env.actions import Action, Wait
from selfsurf.browser_env.observation import Observation


class Repetition(Guard):
    """The same action for the third time on a page that it didn't change: something else is tried instead.

    When all else was tried as often, the action is let through, and everything may be tried anew.

    Args:
        limit: how often an action may be tried on an unchanged page.
    """

    name = "repetition"

    def __init__(self, limit: int = 2) -> None:
        self.limit = limit
        super().__init__()

    def reset(self) -> None:
        """See `Guard.reset`."""
        self._page: Hashable = None
        self._tried: Counter[str] = Counter()

    def check(self, action: Action, obs: Observation, goal: str) -> Verdict:
        """See `Guard.check`."""
        page = page_state(obs)
        if page != self._page:
            self._page, self._tried = page, Counter()
        if isinstance(action, Wait):
            return Verdict(action)
        if self._tried[action.to_json()] < self.limit:
            self._tried[action.to_json()] += 1
            return Verdict(action)
        told = f"{compact(action)} changed nothing {self.limit} times"
        for escape in escapes(obs):
            if self._tried[escape.to_json()] < self.limit and escape != action:
                self._tried[escape.to_json()] += 1
                return instead(escape, told)
        self._tried = Counter({action.to_json(): 1})
        return Verdict(action, f"{told}, nor did anything else.", f"{told}. Do something else.")
