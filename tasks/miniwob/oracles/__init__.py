"""Experts for MiniWoB++ tasks: from an observation to the best next action, with a one-sentence reason.

An oracle uses the agent's observation and what was observed earlier in the episode: no page, no hidden state. It
answers in every state, including those that another agent's mistakes lead to.
"""

from selfsurf.tasks.miniwob.oracles import (  # noqa: F401  each module registers its oracles
    arithmetic,
    basics,
    booking,
    buying,
    colours,
    dates,
    dragging,
    editor,
    email,
    flights,
    forms,
    games,
    gates,
    geometry,
    menus,
    searching,
    selection,
    shapes,
    sliders,
    social,
    texts,
    widgets,
    words,
)
from selfsurf.tasks.miniwob.oracles.base import ORACLES, Notes

__all__ = ["ORACLES", "Notes"]
