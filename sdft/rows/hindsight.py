"""What an episode teaches in hindsight: where something went wrong on a page, what worked there later.

Within an episode an action worked if the page changed, whether or not the goal was reached. Where another run reached
the same goal, what that run did counts instead.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from selfsurf.agents.agent import Act
from selfsurf.browser_env import Action, Observation

_FOCUS = re.compile(r" focused$", re.MULTILINE)


@dataclass(frozen=True)
class Try:
    """A step of an episode."""

    seen: Observation
    """With the page's whole outline."""
    action: Act
    """A str is a reply that was no action."""
    failed: bool
    """Was it reported not to have worked?"""


@dataclass(frozen=True)
class Hindsight:
    """What can be told of an episode's steps once it has ended, by their indices."""

    later: dict[int, Action]
    """Where a step went wrong: what was done on the same page later, and worked."""
    worked: frozenset[int]
    """Steps that worked."""


def in_hindsight(tries: Sequence[Try]) -> Hindsight:
    """Look at an episode's steps again. What its last one led to is not recorded: it neither worked nor failed.

    Waiting is no mistake.
    """
    pages = [page_of(one.seen) for one in tries]
    later: dict[int, Action] = {}
    worked: set[int] = set()
    begun = 0
    for index in range(1, len(tries)):
        if pages[index] == pages[index - 1]:
            continue
        last = tries[index - 1]
        if not last.failed and not isinstance(last.action, str) and last.action.name != "wait":
            worked.add(index - 1)
            for wrong in range(begun, index - 1):
                done = tries[wrong].action
                if isinstance(done, str) or (done.name != "wait" and done != last.action):
                    later[wrong] = last.action
        begun = index
    return Hindsight(later, frozenset(worked))


def beside(tries: Sequence[Try], solved: Sequence[Try]) -> Hindsight:
    """Look at a failed run's steps beside a run that reached the same goal.

    On pages that both saw, what the solved one did worked, what it did last if it was there several times. Of other
    pages nothing is known.
    """
    right = {page_of(one.seen): one.action for one in solved if not one.failed and not isinstance(one.action, str)}
    told = {index: action for index, one in enumerate(tries) if (action := right.get(page_of(one.seen))) is not None}
    worked = frozenset(index for index, action in told.items() if tries[index].action == action)
    return Hindsight({index: action for index, action in told.items() if index not in worked}, worked)


def page_of(seen: Observation) -> tuple[str, str, int]:
    """Return what tells pages apart; not where the focus is."""
    return seen["url"], _FOCUS.sub("", seen["dom"]), len(seen["tabs"])
