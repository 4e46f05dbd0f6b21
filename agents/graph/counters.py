"""Named event counters of a run, and their limits. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping

LIMITS: dict[str, int] = {
    "planner": 3,  # consecutive replies without an action
    "policy": 1,  # failures of the model's server after the policy's own retries
    "disallowed": 3,  # consecutive actions that were not permitted
    "execute": 6,  # consecutive actions that failed
    "timeout": 3,  # consecutive actions that timed out
    "mitigations": 3,  # broken loops
    "no_progress": 4,  # consecutive steps without progress; then the user is asked
    "questions": 2,  # questions to the user for lack of progress
}
"""Count at which each counter ends the run or leads to a question to the user."""


def count(counters: Mapping[str, int], name: str) -> dict[str, int]:
    """Return the counters with the named counter incremented."""
    return {**counters, name: counters.get(name, 0) + 1}


def without(counters: Mapping[str, int], *names: str) -> dict[str, int]:
    """Return the counters with the named counters reset to zero."""
    return {name: value for name, value in counters.items() if name not in names}


def exceeded(counters: Mapping[str, int], name: str) -> bool:
    """Whether a counter has reached its limit."""
    return counters.get(name, 0) >= LIMITS[name]


LOOP = 3
"""Number of occurrences of the same action on the same page that make a loop."""

WINDOW = 12
"""Number of recent actions searched for loops, enough for loops of up to four actions."""


def loops(recent: list[str]) -> bool:
    """Whether the last action closes a loop: its `LOOP`-th recent occurrence on the same page."""
    return bool(recent) and recent[-WINDOW:].count(recent[-1]) >= LOOP
