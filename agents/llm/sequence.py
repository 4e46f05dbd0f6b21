"""Replies with several actions: execution of the actions after the first, and reasons for dropping them.

A model chooses all actions of a reply on the page in its prompt. They are executed one by one, a step each, as long as
the page remains the same; then the model is asked again. Independent of models.
"""

from __future__ import annotations

from collections.abc import Sequence

from selfsurf.agents.reply.compact import compact
from selfsurf.browser_env import Action, Element, Finish, Infeasible, Observation
from selfsurf.browser_env.observation import page_status

QUIET = ("navigated: ", "new tab: ", "tab closed", "download: ")
"""Prefixes of the events after which a `finish` may follow, unless the page answered with an HTTP error."""

LAST = ("navigate", "back", "forward", "reload", "new_tab", "focus_tab", "close_tab", "ask_user")
"""Actions that end a reply, because they replace the page or return an answer to be read."""


class PendingActions:
    """The remaining actions of a reply.

    Args:
        done: the reply's first action.
        actions: the actions after the first.
        seen: the observation on which the actions were chosen.
    """

    def __init__(self, done: Action, actions: Sequence[Action], seen: Observation) -> None:
        self._last = done
        self._actions = list(actions)
        self._seen = seen
        self._quiet = True
        """Whether the actions so far caused only harmless events (`QUIET`)."""
        self.place = 0
        """Index, from 0, of the last action taken from the reply."""
        self.left = ""
        """Report on the dropped actions, with the reason; empty if none were dropped."""

    def take(self, now: Observation) -> Action | None:
        """Return the next action; None if none remain, or if the page has changed since the actions were chosen."""
        if not self._actions:
            return None
        self._quiet &= all(event.startswith(QUIET) for event in now["events"]) and page_status(now["events"]) is None
        following = self._actions[0]
        if isinstance(following, Finish | Infeasible) and not now["last_error"]:
            why = "" if self._may_end(following, now) else "look first at what the other actions led to"
        else:
            why = _hindrance(self._last, following, self._seen, now)
        if why:
            self.drop(why)
            return None
        self._last = self._actions.pop(0)
        self.place += 1
        return self._last

    def _may_end(self, claim: Finish | Infeasible, now: Observation) -> bool:
        """Whether a final claim may be executed without asking the model again."""
        if isinstance(claim, Infeasible) or len(self._actions) > 1 or self._last.name == "ask_user":
            return False
        return self._quiet and (not claim.answer or _alike(self._seen, now))

    def drop(self, why: str) -> None:
        """Drop the remaining actions and record the reason in `left`."""
        if self._actions:
            self.left = f"Of your last reply, {', '.join(map(compact, self._actions))} was not carried out: {why}."
            self._actions = []


def _hindrance(last: Action, following: Action, then: Observation, now: Observation) -> str:
    """Return why an action can't follow another; empty if it can."""
    if now["last_error"]:
        return "the action before it failed"
    if last.name in LAST:
        return f"{last.name} ends a reply"
    if now["url"] != then["url"] or any(event.startswith("navigated: ") for event in now["events"]):
        return "the page is another one now"
    if _tabs(now) != _tabs(then):
        return "other tabs are open now"
    before, present = _by_id(then), _by_id(now)
    for number in (getattr(following, key, None) for key in ("id", "from_", "to")):
        if isinstance(number, int) and not _same(before.get(number), present.get(number)):
            return f"element {number} is gone or has changed"
    return ""


def _same(then: Element | None, now: Element | None) -> bool:
    """Whether an element keeps its role and name and hasn't become covered or disabled."""
    if then is None or now is None:
        return False
    new = set(now["states"]) - set(then["states"])
    return (then["role"], then["name"]) == (now["role"], now["name"]) and not new & {"covered", "disabled"}


def _alike(then: Observation, now: Observation) -> bool:
    """Whether two observations show the same address, tabs and elements."""
    pages = [
        (obs["url"], _tabs(obs), [(element["id"], element["role"], element["name"]) for element in obs["elements"]])
        for obs in (then, now)
    ]
    return pages[0] == pages[1]


def _by_id(obs: Observation) -> dict[int, Element]:
    return {element["id"]: element for element in obs["elements"]}


def _tabs(obs: Observation) -> tuple[bool, ...]:
    return tuple(tab["active"] for tab in obs["tabs"])
