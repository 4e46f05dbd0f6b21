"""Counters of a run, by name, and when one has reached its limit. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping

LIMITS: dict[str, int] = {
    "planner": 3,  # replies in a row that hold no action
    "policy": 1,  # failures of the model's server, which the policy itself has tried again
    "disallowed": 3,  # actions in a row that may not be carried out
    "execute": 6,  # actions in a row that failed
    "timeout": 3,  # of those, that took too long
    "mitigations": 3,  # loops that were broken
    "no_progress": 4,  # steps in a row without progress, before the user is asked
    "questions": 2,  # questions to the user because nothing goes on
}
"""How often each ends the run, or has the user asked."""


def count(counters: Mapping[str, int], name: str) -> dict[str, int]:
    """Return the counters with one of them one higher."""
    return {**counters, name: counters.get(name, 0) + 1}


def without(counters: Mapping[str, int], *names: str) -> dict[str, int]:
    """Return the counters with these at zero."""
    return {name: value for name, value in counters.items() if name not in names}


def exceeded(counters: Mapping[str, int], name: str) -> bool:
    """Whether something has happened too often."""
    return counters.get(name, 0) >= LIMITS[name]


LOOP = 3
"""How often the same action on the same page makes a loop."""

WINDOW = 12
"""Among how many of the last actions it is looked for: loops of up to four actions are found."""


def loops(recent: list[str]) -> bool:
    """Whether the last action closes a loop: it was done on the same page `LOOP` times of late."""
    return bool(recent) and recent[-WINDOW:].count(recent[-1]) >= LOOP
