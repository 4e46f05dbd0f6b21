"""Small checks between the model's reply and the environment. Each reports what it changed and why.

A guard is a class in this package that is listed in `GUARDS`. Training samples without guards, because on-policy data
must contain the actions as sampled.
"""

from __future__ import annotations

from collections.abc import Sequence

from selfsurf.agents.guards.base import Guard, Verdict, apply, counts
from selfsurf.agents.guards.goal import EmptyText, MissingAnswer
from selfsurf.agents.guards.stuck import ChangeGuard, Loop, Repetition
from selfsurf.agents.guards.submit import Submit
from selfsurf.agents.guards.unsure import LowConfidence
from selfsurf.agents.guards.vanished import VanishedElement

__all__ = [
    "GUARDS",
    "ChangeGuard",
    "EmptyText",
    "Guard",
    "Loop",
    "LowConfidence",
    "MissingAnswer",
    "Repetition",
    "Submit",
    "VanishedElement",
    "Verdict",
    "apply",
    "counts",
    "guard_names",
    "make_guards",
]  # fmt: skip

GUARDS: tuple[type[Guard], ...] = (VanishedElement, EmptyText, Submit, MissingAnswer, Repetition, Loop, LowConfidence)
"""All guards, in the order in which they check an action."""


def guard_names(guards: bool | Sequence[str] = True) -> tuple[str, ...]:
    """Return the names of the selected guards: all (True), none (False), or those given, in the order of `GUARDS`.

    Raises:
        ValueError: a name is unknown.
    """
    names = tuple(kind.name for kind in GUARDS)
    chosen = names if guards is True else tuple(guards or ())
    unknown = [name for name in chosen if name not in names]
    if unknown:
        raise ValueError(f"Unknown guards {unknown}: choose from {', '.join(names)}.")
    return tuple(name for name in names if name in chosen)


def make_guards(guards: bool | Sequence[str] = True) -> list[Guard]:
    """Create the selected guards (`guard_names`) for one episode, in the order in which they check an action."""
    names = guard_names(guards)
    return [kind() for kind in GUARDS if kind.name in names]
