"""Oracles of the MiniWoB++ tasks: each maps an observation to the best next action, with a one-sentence reason.

An oracle uses the agent's observation and its notes from earlier in the episode, but neither the page nor hidden state.
It returns an action in every state, including states caused by another agent's mistakes.
"""

from importlib import import_module
from pkgutil import iter_modules

from selfsurf.tasks.miniwob.oracles.base import ORACLES, Notes

__all__ = ["ORACLES", "Notes"]

for _module in iter_modules(__path__):  # each module registers its oracles
    import_module(f"{__name__}.{_module.name}")
