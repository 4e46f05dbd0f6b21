"""Lessons of an episode in hindsight: where a step went wrong, the action that worked later on the same page.

Within an episode an action worked if the page changed, whether or not the goal was reached. If another run reached the
same goal, its actions count instead.
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
    """Observation with the page's complete outline."""
    action: Act
    """Action of the step; a str is a reply without an action."""
    failed: bool
    """Whether the action was reported as failed."""


@dataclass(frozen=True)
class Hindsight:
    """Lessons of an episode after its end, by step index."""

    later: dict[int, Action]
    """Actions that worked later on the same page, by the index of the step that went wrong there."""
    worked: frozenset[int]
    """Indices of the steps that worked."""


def in_hindsight(tries: Sequence[Try]) -> Hindsight:
    """Return the lessons of an episode from its own later steps.

    The last step's result is not recorded, so it counts neither as working nor as failing. Waiting is no mistake.
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
    """Return the lessons of a failed run from a run that reached the same goal.

    On pages of both runs, the solved run's last action there is the one that works. Nothing is known about other pages.
    """
    right = {page_of(one.seen): one.action for one in solved if not one.failed and not isinstance(one.action, str)}
    told = {index: action for index, one in enumerate(tries) if (action := right.get(page_of(one.seen))) is not None}
    worked = frozenset(index for index, action in told.items() if tries[index].action == action)
    return Hindsight({index: action for index, action in told.items() if index not in worked}, worked)


def page_of(seen: Observation) -> tuple[str, str, int]:
    """Return a page's identity, which ignores the focus."""
    return seen["url"], _FOCUS.sub("", seen["dom"]), len(seen["tabs"])
