"""Registry of the oracles, and functions to search an observation."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from typing import Any, TypeAlias

from selfsurf.browser_env import Action, Click, Element, Fill, Observation
from selfsurf.browser_env.outline import OutlineLine, parse_outline

Notes: TypeAlias = dict[str, Any]
"""Facts that an oracle has read in this episode, by name, such as the number on a card that is covered again. Never the
progress of a plan, because another agent may have acted in between."""

Oracle: TypeAlias = Callable[[Observation, Notes], Action | None]

ORACLES: dict[str, Oracle] = {}
"""Oracles by task name."""


def oracle(*names: str) -> Callable[[Callable[..., Action | None]], Callable[..., Action | None]]:
    """Register a function as the oracle of these tasks. It takes the observation, and optionally the notes."""

    def register(function: Callable[..., Action | None]) -> Callable[..., Action | None]:
        noting = len(inspect.signature(function).parameters) > 1
        ORACLES.update(dict.fromkeys(names, function if noting else lambda obs, notes: function(obs)))
        return function

    return register


def elements(obs: Observation, role: str = "", name: str | None = None) -> list[Element]:
    """Return the elements with a role and name in page order, which is the order of their IDs.

    A name matches exactly or, if no name does, regardless of case.
    """
    found = sorted((e for e in obs["elements"] if role in ("", e["role"])), key=lambda e: e["id"])
    if name is None:
        return found
    return [e for e in found if e["name"] == name] or [e for e in found if same(e["name"], name)]


def same(a: str, b: str) -> bool:
    """Whether two labels are equal, apart from case and spaces."""
    return " ".join(a.split()).casefold() == " ".join(b.split()).casefold()


def outline(obs: Observation) -> list[OutlineLine]:
    """Return the outline's lines, without the goal, which MiniWoB++ repeats above the page."""
    return [line for line in parse_outline(obs["dom"]) if line.text != obs["goal"]]


def line_near(obs: Observation, element: Element, offset: int) -> str:
    """Return the outline's line at an offset from an element's line; empty if there is none."""
    lines = parse_outline(obs["dom"])
    own = next((i for i, line in enumerate(lines) if line.id == element["id"]), None)
    return str(lines[own + offset]).strip() if own is not None and 0 <= own + offset < len(lines) else ""


def text_lines(obs: Observation, pattern: str) -> list[re.Match[str]]:
    """Return a pattern's matches with whole lines of text in the outline."""
    texts = (line.text for line in parse_outline(obs["dom"]) if line.id is None)
    return [match for text in texts if (match := re.fullmatch(pattern, text))]


def last_done(obs: Observation) -> dict[str, Any]:
    """Return the last action as a dict; empty if the action failed."""
    return json.loads(obs["last_action"]) if obs["last_action"] and not obs["last_error"] else {}


def quoted(goal: str) -> list[str]:
    """Return the texts in double quotes in a goal."""
    return re.findall(r'"(.*?)"', goal)


def said(obs: Observation, pattern: str, otherwise: str = "") -> str:
    """Return the match of a pattern's first group in the goal; `otherwise` if there is none."""
    match = re.search(pattern, obs["goal"])
    return match.group(1) if match else otherwise


def was_clicked(obs: Observation, element: Element) -> bool:
    """Whether the last action was a click on the element."""
    return obs["last_action"] == Click(id=element["id"]).to_json()


def click(found: list[Element], reason: str) -> Action | None:
    """Return a click on the first of the elements; None if there is none."""
    return Click(id=found[0]["id"], reason=reason) if found else None


def submit(obs: Observation, reason: str) -> Action | None:
    """Return a click on the button Submit."""
    return click(elements(obs, "button", "Submit"), reason)


def fill_then_submit(obs: Observation, field: list[Element], text: str, why: str) -> Action | None:
    """Fill a text into a field unless it is already there, then press Submit."""
    if field and field[0]["value"] != text:
        return Fill(id=field[0]["id"], text=text, reason=why)
    return submit(obs, f'The field holds "{text}" as it should, so Submit comes next.')


def fill_then_press(obs: Observation, texts: list[str], button: str, role: str = "button") -> Action | None:
    """Fill texts into the text fields in order, unless they are already there, then press the button."""
    for field, text in zip(elements(obs, "textbox"), texts, strict=False):
        shown = "•" * len(text) if field["value"].startswith("•") else text
        if field["value"] != shown:
            return Fill(id=field["id"], text=text, reason=f'The field {field["id"]} must hold "{text}".')
    return click(elements(obs, role, button), f'The fields are filled, so "{button}" comes next.')
