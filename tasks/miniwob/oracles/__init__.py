"""Experts for MiniWoB++ tasks: from what the agent sees to its best next action, and one sentence why.

An oracle looks at what an agent sees, and at what it has seen in the episode: no page, no hidden state. It answers in
every state that it can meet, also in those that another agent's mistakes lead to.
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
