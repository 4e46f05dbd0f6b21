"""A guard that submits typed text before the model finishes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from selfsurf.agents.guards.base import Guard, Verdict
from selfsurf.agents.kinds import is_editable
from selfsurf.browser_env import Action, Click, Element, Fill, Finish, Observation, Press, Type
from selfsurf.browser_env.keys import key_chord, pressed_key
from selfsurf.browser_env.safety.risk import assess, normal

_SUBMIT = re.compile(
    r"(?i)^\W*(?:submit|search|find|go|ok|okay|save|apply|send|post|continue|next|confirm|done|update|add|create|register"
    r"|log ?in|log on|sign ?in|sign ?up)\b"
)
_SEARCH_BUTTON = re.compile(r"(?i)^\W*(?:search|find|go|submit|ok|okay)\b")
_SEARCH_FIELD = re.compile(r"(?i)\b(?:search|find|query|look ?up)\b")
_NOT = re.compile(r"\b(?:not|don't|don’t|never|without|before)\b", re.IGNORECASE)


class Submit(Guard):
    """Guard that presses the submit button, or Enter, when the model finishes without submitting what it typed.

    The button is the first after the field with a name like `Submit`, `Search` or `Log in`, in the same frame, or the
    only one there. Risky buttons such as `Send` are pressed only if the goal names them, and no button is pressed if
    the goal contains a word such as "not" or "before". Clicking any button or link, or pressing Enter, after typing
    counts as submitting. For a search field, the button must be a search button with no other field in between; without
    one, Enter is pressed.
    """

    name = "submit"

    def reset(self) -> None:
        """Forget the text typed in the last episode."""
        self._typed: int | None = None

    def check(self, action: Action, obs: Observation, goal: str) -> Verdict:
        """Replace `finish` with a click or key press that submits the typed text."""
        if isinstance(action, Type) and action.text.endswith(("\n", "\r")):
            self._typed = None
        elif isinstance(action, (Fill, Type)):
            if action.text.strip():
                self._typed = action.id if action.id is not None else _focused(obs)
        elif isinstance(action, (Click, Press)) and _submits(action, obs):
            self._typed = None
        elif isinstance(action, Finish) and not _NOT.search(goal):
            submitting = self._submitting(obs, goal)
            self._typed = None
            if submitting is not None:
                return submitting
        return Verdict(action)

    def _submitting(self, obs: Observation, goal: str) -> Verdict | None:
        """Return the action that submits the field with the typed text; None if the field is gone or empty."""
        elements = obs["elements"]
        place = next((index for index, element in enumerate(elements) if element["id"] == self._typed), None)
        if place is None or not elements[place]["value"]:
            return None
        field = elements[place]
        searches = _is_search(field)
        button = _search_button(elements, place) if searches else _button(elements, place)
        if button is not None and not _is_wanted(button, goal):
            return None
        if button is not None:
            note = f'What was typed is not submitted yet: pressed {button["role"]} "{button["name"]}".'
            return Verdict(Click(id=button["id"]), note)
        if not searches:
            return None
        note = f'What was typed is not submitted yet: pressed Enter in {field["role"]} "{field["name"]}".'
        return Verdict(Press(key="Enter", id=field["id"]), note, f"{note} Finish when the goal is reached.")


def _button(elements: Sequence[Element], field: int) -> Element | None:
    """Return the first submit button after the field, or the only one in its frame."""
    buttons = [index for index, element in enumerate(elements) if _is_submit(element, elements[field]["frame"])]
    after = [index for index in buttons if index > field]
    chosen = after or (buttons if len(buttons) == 1 else [])
    return elements[chosen[0]] if chosen else None


def _is_search(element: Element) -> bool:
    words = element["role"] in ("textbox", "combobox") and is_editable(element)
    return element["role"] == "searchbox" or (words and bool(_SEARCH_FIELD.search(element["name"])))


def _search_button(elements: Sequence[Element], field: int) -> Element | None:
    """Return the search button that follows the field with no other field in between."""
    for element in elements[field + 1 :]:
        if is_editable(element) or element["tag"] == "select":
            return None
        if _is_submit(element, elements[field]["frame"]) and _SEARCH_BUTTON.search(element["name"]):
            return element
    return None


def _is_submit(element: Element, frame: str) -> bool:
    usable = element["role"] == "button" and not {"disabled", "covered"} & set(element["states"])
    return usable and element["frame"] == frame and bool(_SUBMIT.search(element["name"]))


def _is_wanted(button: Element, goal: str) -> bool:
    """Whether pressing the button is harmless, or the goal contains the first word of its name."""
    word = normal(button["name"]).partition(" ")[0]
    return assess(Click(id=button["id"]), button) is None or word in normal(goal).split()


def _submits(action: Click | Press, obs: Observation) -> bool:
    if isinstance(action, Press):
        return pressed_key(key_chord(action.key)) in ("Enter", "NumpadEnter")
    element = next((element for element in obs["elements"] if element["id"] == action.id), None)
    return element is None or element["role"] in ("button", "link")


def _focused(obs: Observation) -> int | None:
    return next((element["id"] for element in obs["elements"] if "focused" in element["states"]), None)
