"""Shared by the oracles: the registry, and functions to search an observation."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from typing import Any, TypeAlias

from selfsurf.browser_env import Action, Click, Element, Fill, Observation
from selfsurf.browser_env.observe.outline import OutlineLine, parse_outline

Notes: TypeAlias = dict[str, Any]
"""What an oracle has read in this episode, by a name of its choice. Only facts (the number on a card that is covered
again), never the progress of a plan: an agent may have acted in between."""

Oracle: TypeAlias = Callable[[Observation, Notes], Action | None]

ORACLES: dict[str, Oracle] = {}
"""Oracles by task name."""


def oracle(*names: str) -> Callable[[Callable[..., Action | None]], Callable[..., Action | None]]:
    """Register a function of the observation, or of the observation and the episode's notes, for these tasks."""

    def register(function: Callable[..., Action | None]) -> Callable[..., Action | None]:
        noting = len(inspect.signature(function).parameters) > 1
        ORACLES.update(dict.fromkeys(names, function if noting else lambda obs, notes: function(obs)))
        return function

    return register


def elements(obs: Observation, role: str = "", name: str | None = None) -> list[Element]:
    """Return the elements with a role and name, in the page's order (which their ids follow).

    A name matches exactly or, if none does, regardless of case.
    """
    found = sorted((e for e in obs["elements"] if role in ("", e["role"])), key=lambda e: e["id"])
    if name is None:
        return found
    return [e for e in found if e["name"] == name] or [e for e in found if same(e["name"], name)]


def same(a: str, b: str) -> bool:
    """Are two labels the same, apart from case and blanks?"""
    return " ".join(a.split()).casefold() == " ".join(b.split()).casefold()


def outline(obs: Observation) -> list[OutlineLine]:
    """Return the outline's lines, without the goal, which MiniWoB++ repeats above the page."""
    return [line for line in parse_outline(obs["dom"]) if line.text != obs["goal"]]


def line_near(obs: Observation, element: Element, offset: int) -> str:
    """Return the outline's line at an offset from an element's own; empty if there is none."""
    lines = parse_outline(obs["dom"])
    own = next((i for i, line in enumerate(lines) if line.id == element["id"]), None)
    return str(lines[own + offset]).strip() if own is not None and 0 <= own + offset < len(lines) else ""


def text_lines(obs: Observation, pattern: str) -> list[re.Match[str]]:
    """Return the matches of a pattern with whole lines of text."""
    texts = (line.text for line in parse_outline(obs["dom"]) if line.id is None)
    return [match for text in texts if (match := re.fullmatch(pattern, text))]


def last_done(obs: Observation) -> dict[str, Any]:
    """Return the last action as a dict; an empty one if it failed."""
    return json.loads(obs["last_action"]) if obs["last_action"] and not obs["last_error"] else {}


def quoted(goal: str) -> list[str]:
    """Return the texts in double quotes."""
    return re.findall(r'"(.*?)"', goal)


def said(obs: Observation, pattern: str, otherwise: str = "") -> str:
    """Return what the pattern's first group matches in the goal."""
    match = re.search(pattern, obs["goal"])
    return match.group(1) if match else otherwise


def was_clicked(obs: Observation, element: Element) -> bool:
    """Was the last action a click on the element?"""
    return obs["last_action"] == Click(id=element["id"]).to_json()


def click(found: list[Element], reason: str) -> Action | None:
    """Click the first of the elements; None if there is none."""
    return Click(id=found[0]["id"], reason=reason) if found else None


def submit(obs: Observation, reason: str) -> Action | None:
    """Press Submit."""
    return click(elements(obs, "button", "Submit"), reason)


def fill_then_submit(obs: Observation, field: list[Element], text: str, why: str) -> Action | None:
    """Fill one field with a text unless it has it, then press Submit."""
    if field and field[0]["value"] != text:
        return Fill(id=field[0]["id"], text=text, reason=why)
    return submit(obs, f'The field holds "{text}" as it should, so Submit comes next.')


def fill_then_press(obs: Observation, texts: list[str], button: str, role: str = "button") -> Action | None:
    """Fill the text fields in order, each unless it has its text, then press the button."""
    for field, text in zip(elements(obs, "textbox"), texts, strict=False):
        shown = "•" * len(text) if field["value"].startswith("•") else text
        if field["value"] != shown:
            return Fill(id=field["id"], text=text, reason=f'The field {field["id"]} must hold "{text}".')
    return click(elements(obs, role, button), f'The fields are filled, so "{button}" comes next.')
