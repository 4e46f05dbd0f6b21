"""The actions of one reply after its first: what is still to be done, and what ends it early.

A model chooses all actions of a reply on the page that it is shown. They are carried out one by one, a step of the
environment each, for as long as that page is still there; then the model is asked again. Knows nothing of models.
"""

from __future__ import annotations

from collections.abc import Sequence

from selfsurf.agents.reply.compact import compact
from selfsurf.browser_env import Action, Element, Finish, Infeasible, Observation
from selfsurf.browser_env.observation import page_status

QUIET = ("navigated: ", "new tab: ", "tab closed", "download: ")
"""How the events begin after which a `finish` may follow, unless the page answered with an error."""

LAST = ("navigate", "back", "forward", "reload", "new_tab", "focus_tab", "close_tab", "ask_user")
"""What ends a reply: the page after it is another one, or there is an answer to read."""


class Rest:
    """What is left of a reply.

    Args:
        done: the reply's first action.
        actions: those after it.
        seen: what they were chosen on.
    """

    def __init__(self, done: Action, actions: Sequence[Action], seen: Observation) -> None:
        self._last = done
        self._actions = list(actions)
        self._seen = seen
        self._quiet = True
        """Whether the actions so far led to no error, dialog or the like."""
        self.place = 0
        """Of the last action in its reply, from 0."""
        self.left = ""
        """What was not carried out, and why; empty if all was."""

    def take(self, now: Observation) -> Action | None:
        """Return the next action; None if there is none, or if the page is not the one that it was chosen on."""
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
        """Whether a claim needs no look at what the actions before it led to; an answer may have to be read there."""
        if isinstance(claim, Infeasible) or len(self._actions) > 1 or self._last.name == "ask_user":
            return False
        return self._quiet and (not claim.answer or _alike(self._seen, now))

    def drop(self, why: str) -> None:
        """Leave what is left undone."""
        if self._actions:
            self.left = f"Of your last reply, {', '.join(map(compact, self._actions))} was not carried out: {why}."
            self._actions = []


def _hindrance(last: Action, following: Action, then: Observation, now: Observation) -> str:
    """Why an action is not carried out behind another; empty if it is."""
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
    """Whether an element can be acted on as it could, and is still called the same."""
    if then is None or now is None:
        return False
    new = set(now["states"]) - set(then["states"])
    return (then["role"], then["name"]) == (now["role"], now["name"]) and not new & {"covered", "disabled"}


def _alike(then: Observation, now: Observation) -> bool:
    """Whether an answer can have been read on the page as it was: address, tabs and elements are the same."""
    pages = [
        (obs["url"], _tabs(obs), [(element["id"], element["role"], element["name"]) for element in obs["elements"]])
        for obs in (then, now)
    ]
    return pages[0] == pages[1]


def _by_id(obs: Observation) -> dict[int, Element]:
    return {element["id"]: element for element in obs["elements"]}


def _tabs(obs: Observation) -> tuple[bool, ...]:
    return tuple(tab["active"] for tab in obs["tabs"])
