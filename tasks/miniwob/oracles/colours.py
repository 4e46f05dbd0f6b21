"""Oracles of tasks with colors, which are states of empty boxes: a name, or `#rrggbb`."""

from __future__ import annotations

import re

from selfsurf.browser_env import Action, Element, Observation
from selfsurf.tasks.miniwob.oracles.base import click, elements, oracle, said, submit

OTHER_NAMES = {"grey": "gray", "cyan": "aqua"}
CHANNELS = ("red", "green", "blue")


@oracle("click-color")
def click_color(obs: Observation) -> Action | None:
    """Click the box of the color that the goal names, or shows as a small box."""
    named = said(obs, r"^Click on the (\w+) colored box")
    color = OTHER_NAMES.get(named, named)
    boxes = [box for box in elements(obs, "generic", "color") if color in box["states"]]
    return click(boxes, f"This box is {color}.")


@oracle("click-shades")
def click_shades(obs: Observation) -> Action | None:
    """Select the boxes whose dominant color channel is the named one, and no others, then submit."""
    wanted = said(obs, r"^Select all the shades of (\w+)")
    for box in elements(obs, "generic"):
        color, channel = _shade(box)
        selected = "selected" in box["states"]
        if channel and (channel == wanted) != selected:
            needless = f", not of {wanted}, and must not be selected" if selected else ""
            return click([box], f"{color} is a shade of {channel}{needless}.")
    return submit(obs, f"All shades of {wanted} are selected, so Submit comes next.")


def _shade(box: Element) -> tuple[str, str]:
    """Return a box's color and its dominant channel; empty if the box has no color."""
    for state in box["states"]:
        if re.fullmatch(r"#[0-9a-f]{6}", state):
            parts = [int(state[at : at + 2], 16) for at in (1, 3, 5)]
            return state, CHANNELS[parts.index(max(parts))]
    return "", ""
