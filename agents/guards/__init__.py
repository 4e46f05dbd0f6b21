"""Small checks between the model's reply and the environment. Each says what it changed and why.

They belong to deployment: rollouts for training are made without, since on-policy data must be what was sampled.
"""

from __future__ import annotations

from selfsurf.agents.guards.answer import Answer
from selfsurf.agents.guards.base import Guard, Verdict, apply, counts
from selfsurf.agents.guards.empty_text import EmptyText
from selfsurf.agents.guards.loop import Loop
from selfsurf.agents.guards.repetition import Repetition
from selfsurf.agents.guards.submit import Submit
from selfsurf.agents.guards.vanished import Vanished

__all__ = [
    "Answer", "EmptyText", "Guard", "Loop", "Repetition", "Submit", "Vanished", "Verdict", "apply", "counts",
    "default_guards",
]  # fmt: skip


def default_guards() -> list[Guard]:
    """The guards of one episode, in the order in which they are asked."""
    return [Vanished(), EmptyText(), Submit(), Answer(), Repetition(), Loop()]
