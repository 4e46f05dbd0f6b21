"""The memory of failed actions in an episode, by page, so that they aren't repeated."""

from __future__ import annotations

from selfsurf.agents.aids.base import IDLE, Judging
from selfsurf.browser_env import Action, Observation

MOST = 5
"""Maximum number of failures reported for a page; the latest are kept."""

LONGEST = 120
"""Maximum length of a failure's reason, in characters."""


class Failures(Judging):
    """Lists earlier actions that failed or changed nothing on the open page, except the last action."""

    name = "failures"

    def __init__(self) -> None:
        super().__init__()
        self._failed: dict[str, dict[str, str]] = {}
        """Reason of each failure by page address and by the action's entry in the history."""
        self._last: tuple[Action, Observation, str] | None = None

    def told(self, obs: Observation, goal: str) -> str:
        """Return the failures on the open page in one sentence; empty for none."""
        last = self._judge(obs)
        found = [f"{entry} ({why})" for entry, why in self._failed.get(obs["url"], {}).items() if entry != last]
        return f"What failed on this page before: {'; '.join(found[-MOST:])}." if found else ""

    def did(self, action: Action, obs: Observation, entry: str) -> None:
        """Record an action with its page and its entry in the history."""
        self._judge(obs, acts=True)
        self._last = action, obs, entry

    def take_back(self) -> None:
        """Forget the last action, so that it isn't judged."""
        self._last = None

    def _judge(self, obs: Observation, *, acts: bool = False) -> str:
        """Record whether the last action failed, by the page after it, and return its history entry."""
        changed = self.see(obs, acts=acts)
        if self._last is None or self._last[1] is obs:
            return ""
        action, before, entry = self._last
        why = " ".join(obs["last_error"].split())[:LONGEST]
        if not why and action.name not in IDLE and not changed:
            why = "nothing changed"
        known = self._failed.setdefault(before["url"], {})
        known.pop(entry, None)
        if why:
            known[entry] = why
        return entry
