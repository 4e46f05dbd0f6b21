"""A guard that submits what was typed before the model finishes."""

from __future__ import annotations

import re

from selfsurf.agents.guards.base import Guard, Verdict
from selfsurf.browser_env import Action, Click, Element, Fill, Finish, Observation, Press, Type

_SUBMIT = re.compile(
    r"(?i)^\W*(?:submit|search|find|go|ok|okay|save|apply|send|post|continue|next|confirm|done|update|add|create|register"
    r"|log ?in|log on|sign ?in|sign ?up)\b"
)
_NOT = re.compile(r"\b(?:not|don't|don’t|never|without|before)\b", re.IGNORECASE)


class Submit(Guard):
    """A model that finishes after typing, without submitting, presses the submit button first.

    The button is the first after the field with a name like `Submit`, `Search` or `Log in`, in the same frame, or the
    only one there; never one that buys or deletes, and none if the goal says not to do something. Any button, or
    Enter, pressed after typing counts as submitting.
    """

    name = "submit"

    def reset(self) -> None:
        """See `Guard.reset`."""
        self._typed: int | None = None

    def check(self, action: Action, obs: Observation, goal: str) -> Verdict:
        """See `Guard.check`."""
        if isinstance(action, (Fill, Type)):
            if action.text.strip():
                self._typed = action.id if action.id is not None else _focused(obs)
        elif isinstance(action, (Click, Press)) and _submits(action, obs):
            self._typed = None
        elif isinstance(action, Finish) and not _NOT.search(goal):
            button = self._button(obs)
            self._typed = None
            if button is not None:
                note = f'What was typed is not submitted yet: pressed {button["role"]} "{button["name"]}".'
                return Verdict(Click(id=button["id"]), note)
        return Verdict(action)

    def _button(self, obs: Observation) -> Element | None:
        """The button for the field that was typed into, if that is still there and filled."""
        elements = obs["elements"]
        field = next((index for index, element in enumerate(elements) if element["id"] == self._typed), None)
        if field is None or not elements[field]["value"]:
            return None
        buttons = [index for index, element in enumerate(elements) if _is_submit(element, elements[field]["frame"])]
        after = [index for index in buttons if index > field]
        chosen = after or (buttons if len(buttons) == 1 else [])
        return elements[chosen[0]] if chosen else None


def _is_submit(element: Element, frame: str) -> bool:
    usable = element["role"] == "button" and not {"disabled", "covered"} & set(element["states"])
    return usable and element["frame"] == frame and bool(_SUBMIT.search(element["name"]))


def _submits(action: Click | Press, obs: Observation) -> bool:
    if isinstance(action, Press):
        return action.key == "Enter"
    element = next((element for element in obs["elements"] if element["id"] == action.id), None)
    return element is None or element["role"] in ("button", "link")


def _focused(obs: Observation) -> int | None:
    return next((element["id"] for element in obs["elements"] if "focused" in element["states"]), None)
