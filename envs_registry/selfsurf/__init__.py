"""selfsurf: browser environments, web agents, and a trainer that teaches them from their own episodes.

Importing it registers the Gymnasium ids and loads no model library. The parts are `selfsurf.browser_env`,
`selfsurf.tasks`, `selfsurf.envs_registry`, `selfsurf.agents`, `selfsurf.sdft` and `selfsurf.scripts`.
`selfsurf.evaluate` runs an agent on a suite; `selfsurf.register` gives a task of your own a Gymnasium id.

In a checkout they are the folders at its root (`pyproject.toml` maps them), so that there `import browser_env` finds
one, too. It has to be the very same module: two copies would be two browsers and two lists of known secrets.
"""

from __future__ import annotations

import sys

if sys.argv and sys.argv[0].endswith("/selfsurf"):  # the command, which Ctrl-C ends without a traceback while it loads
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)

import importlib
from importlib.metadata import version
from typing import Any

from selfsurf import bare as bare  # first: from here on bare names are ours
from selfsurf import envs_registry as envs_registry  # registers the ids
from selfsurf import renames as renames  # answers imports that earlier versions had
from selfsurf import threads

threads.set_waiting()  # nothing above has loaded OpenMP

__version__ = version("selfsurf")


def __getattr__(name: str) -> Any:
    """Import a part when it is first used: `selfsurf.agents.make(...)`."""
    if name == "register":
        return envs_registry.register
    if name == "evaluate":
        return importlib.import_module("selfsurf.scripts.suite.evaluate").evaluate
    if name in bare.PARTS:
        return importlib.import_module(f"selfsurf.{name}")
    raise AttributeError(f"module 'selfsurf' has no attribute {name!r}")
