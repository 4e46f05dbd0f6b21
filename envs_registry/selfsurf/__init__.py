"""selfsurf: browser environments, web agents, and a trainer that teaches them from their own episodes.

Importing it registers the Gymnasium ids and loads no model library. The parts are `selfsurf.browser_env`,
`selfsurf.tasks`, `selfsurf.envs_registry`, `selfsurf.agents`, `selfsurf.sdft` and `selfsurf.scripts`.

In a checkout they are the folders at its root (`pyproject.toml` maps them), so that there `import browser_env` finds
one, too. It has to be the very same module: two copies would be two browsers and two lists of known secrets.
"""

from __future__ import annotations

import importlib
from importlib.metadata import version
from types import ModuleType

from selfsurf import bare as bare  # first: from here on bare names are ours
from selfsurf import envs_registry as envs_registry  # registers the ids

__version__ = version("selfsurf")


def __getattr__(name: str) -> ModuleType:
    """Import a part when it is first used: `selfsurf.agents.make(...)`."""
    if name in bare.PARTS:
        return importlib.import_module(f"selfsurf.{name}")
    raise AttributeError(f"module 'selfsurf' has no attribute {name!r}")
