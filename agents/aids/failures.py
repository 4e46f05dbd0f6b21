"""The memory of what failed in this episode, page by page, so that it isn't tried again."""

from __future__ import annotations

from selfsurf.agents.aids.base import IDLE, Judging
from selfsurf.browser_env import Action, Observation

MOST = 5
"""Failures of a page that are told, the latest ones."""

LONGEST = 120
"""Characters of a reason."""


class Failures(Judging):
    """Lists what failed or changed nothing on the page that is open, but for the last action, which is told anyway."""

    name = "failures"

    def __init__(self) -> None:
        super().__init__()
        self._failed: dict[str, dict[str, str]] = {}
        """By address: the action's line in the history, and why it failed."""
        self._last: tuple[Action, Observation, str] | None = None

    def told(self, obs: Observation, goal: str) -> str:
        """As `Aid.told`."""
        last = self._judge(obs)
        found = [f"{entry} ({why})" for entry, why in self._failed.get(obs["url"], {}).items() if entry != last]
        return f"What failed on this page before: {'; '.join(found[-MOST:])}." if found else ""

    def did(self, action: Action, obs: Observation, entry: str) -> None:
        """As `Aid.did`."""
        self._judge(obs, acts=True)
        self._last = action, obs, entry

    def take_back(self) -> None:
        """As `Aid.take_back`."""
        self._last = None

    def _judge(self, obs: Observation, *, acts: bool = False) -> str:
        """Note whether the last action failed, now that its page is seen; return its line."""
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
