"""Oracles of tasks with spinners, color fields, and resizable text areas."""

from __future__ import annotations

import re

from selfsurf.browser_env import Action, Drag, Observation
from selfsurf.tasks.miniwob.oracles.base import Notes, elements, fill_then_submit, oracle, said, submit


def code_of(color: str) -> str:
    """Return the hexadecimal RGB code of a color given by name or as `#rrggbb`."""
    from PIL import ImageColor

    return "".join(f"{part:02X}" for part in ImageColor.getrgb(color)[:3])


@oracle("use-spinner")
def use_spinner(obs: Observation) -> Action | None:
    """Fill the number into the spinner, then submit."""
    number = said(obs, r"^Select (-?\d+) with the spinner", "0")
    return fill_then_submit(obs, elements(obs, "spinbutton"), number, f"The goal asks for {number} in the spinner.")


@oracle("use-colorwheel")
def use_colorwheel(obs: Observation) -> Action | None:
    """Fill in the color's code, then submit."""
    name = said(obs, r"^Select (\w+) with the color picker")
    code = code_of(name)
    return fill_then_submit(obs, elements(obs, "textbox"), code, f"The colour {name} is written as {code}.")


@oracle("use-colorwheel-2")
def use_colorwheel_2(obs: Observation) -> Action | None:
    """Fill in the color code of the box in the goal's line, then submit."""
    color = next(iter(re.findall(r"\((#?\w+) box\)", obs["dom"])), "black")
    code = code_of(color)
    why = f"The colour to be selected is {color}, that is {code}."
    return fill_then_submit(obs, elements(obs, "textbox"), code, why)


@oracle("resize-textarea")
def resize_textarea(obs: Observation, notes: Notes) -> Action | None:
    """Resize the text area by dragging its lower right corner, then submit."""
    match = re.search(r"the (width|height) is (smaller|larger)", obs["goal"])
    side, change = match.groups() if match else ("height", "larger")
    area = elements(obs, "textbox")
    if not area:
        return None
    x, y, width, height = area[0]["bbox"]
    first_width, first_height = notes.setdefault("size", (width, height))
    now, before = (width, first_width) if side == "width" else (height, first_height)
    if now > before if change == "larger" else now < before:
        done = f"The {side} is {now:g} now, {change} than the {before:g} at first, so Submit comes next."
        return submit(obs, done)
    by = before - now + (20 if change == "larger" else -20)
    corner = (x + width - 6, y + height - 6)
    to = (corner[0] + by, corner[1]) if side == "width" else (corner[0], corner[1] + by)
    reason = f"The {side} must become {change} than {before:g}, and the lower right corner can be dragged."
    return Drag.model_validate({"from": corner, "to": to, "reason": reason})
