"""The report on each action's effect: the changes on the page, or that nothing changed."""

from __future__ import annotations

from collections import Counter

from selfsurf.agents.aids.base import IDLE, Judging
from selfsurf.agents.prompt.page import label
from selfsurf.browser_env import Action, Element, Observation
from selfsurf.browser_env.observe.outline import without_focus
from selfsurf.browser_env.text import visible

MOST = 4
"""Maximum number of elements listed per kind of change."""

NOTHING = "nothing that can be seen changed"


class Effect(Judging):
    """Reports the effect of the last action. Failed actions are left out: the environment reports their errors."""

    name = "effect"

    def __init__(self) -> None:
        super().__init__()
        self._before: tuple[Action, Observation] | None = None

    def told(self, obs: Observation, goal: str) -> str:
        """Return a sentence on the last action's effect; empty after an error or an idle action without effect."""
        changed = self.see(obs)
        if self._before is None or obs["last_error"]:
            return ""
        action, before = self._before
        if not changed and action.name in IDLE:
            return ""
        return f"Effect of your last action: {in_words(before, obs) if changed else NOTHING}."

    def did(self, action: Action, obs: Observation, entry: str) -> None:
        """Record an action with the page before it."""
        self.see(obs, acts=True)
        self._before = action, obs

    def take_back(self) -> None:
        """Forget the last action, so that no effect is reported."""
        self._before = None


def in_words(before: Observation, after: Observation) -> str:
    """Describe the differences between two observations in words."""
    said = []
    if before["url"] != after["url"]:
        said.append(f"another address is open, with the title {_title(after)}")
    if (tabs := len(after["tabs"]) - len(before["tabs"])) != 0:
        said.append("a tab was opened" if tabs > 0 else "a tab was closed")
    if before["url"] == after["url"]:
        said += _elements(before, after)
        if before["title"] != after["title"]:
            said.append(f"the title is now {_title(after)}")
    if not said:
        said.append("text on the page changed" if _text(before) != _text(after) else "the page looks different")
    return "; ".join(said)


def _title(obs: Observation) -> str:
    return f'"{visible(" ".join(obs["title"].split()))[:80]}"'


def _text(obs: Observation) -> tuple[str, str]:
    return without_focus(obs["dom"], ids=False), obs["page_text"]


def _elements(before: Observation, after: Observation) -> list[str]:
    then, now = ({one["id"]: one for one in obs["elements"]} for obs in (before, after))
    named = [Counter(_name(one) for one in these.values()) for these in (then, now)]
    changed = [
        _name(one, value=True) for number, one in now.items()
        if number in then and _name(one) == _name(then[number]) and _held(one) != _held(then[number])
    ]  # fmt: skip
    found = {"new": [*(named[1] - named[0])], "gone": [*(named[0] - named[1])], "now": changed}
    return [f"{what}: {_listed(names)}" for what, names in found.items() if names]


def _listed(names: list[str]) -> str:
    more = len(names) - MOST
    return ", ".join(names[:MOST]) + (f" and {more} more" if more > 0 else "")


def _held(element: Element) -> tuple[str, tuple[str, ...]]:
    return element["value"], tuple(one for one in element["states"] if one != "focused")


def _name(element: Element, *, value: bool = False) -> str:
    shown = [one for one in element["states"] if one != "focused"] if value else []
    return str(label({**element, "value": element["value"] if value else "", "states": tuple(shown)}))
