"""Experts for MiniWoB++ tasks: from an observation to the best next action, with a one-sentence reason.

An oracle uses the agent's observation and what was observed earlier in the episode: no page, no hidden state. It
answers in every state, including those that another agent's mistakes lead to.
"""

from importlib import import_module
from pkgutil import iter_modules

from selfsurf.tasks.miniwob.oracles.base import ORACLES, Notes

__all__ = ["ORACLES", "Notes"]

for _module in iter_modules(__path__):  # each registers its oracles
    import_module(f"{__name__}.{_module.name}")
