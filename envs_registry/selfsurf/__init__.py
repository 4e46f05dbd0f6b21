"""selfsurf: browser environments, web agents, and a trainer that teaches them from their own episodes.

Importing it registers the Gymnasium IDs and loads no model library. The parts are `selfsurf.browser_env`,
`selfsurf.tasks`, `selfsurf.envs_registry`, `selfsurf.agents`, `selfsurf.sdft` and `selfsurf.scripts`.
`selfsurf.evaluate` runs an agent on a suite; `selfsurf.register` gives a task of your own a Gymnasium ID.

In a checkout the parts are the folders at its root (`pyproject.toml` maps them), so that `import browser_env` finds one
there, too. It has to be the same module as `selfsurf.browser_env`: two copies would mean two browsers and two lists of
known secrets.
"""

from __future__ import annotations

import sys

if sys.argv and sys.argv[0].endswith("/selfsurf"):  # the `selfsurf` command: Ctrl-C during loading shows no traceback
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)

import importlib
from importlib.metadata import version
from typing import Any

from selfsurf import bare as bare  # first, because it redirects bare imports from here on
from selfsurf import envs_registry as envs_registry  # registers the Gymnasium IDs
from selfsurf import renames as renames  # explains failed imports of names from earlier versions
from selfsurf import threads

threads.set_waiting()  # before anything has loaded OpenMP

__version__ = version("selfsurf")


def __getattr__(name: str) -> Any:
    """Import a part on first use, as in `selfsurf.agents.make(...)`."""
    if name == "register":
        return envs_registry.register
    if name == "evaluate":
        return importlib.import_module("selfsurf.scripts.suite.evaluate").evaluate
    if name in bare.PARTS:
        return importlib.import_module(f"selfsurf.{name}")
    raise AttributeError(f"module 'selfsurf' has no attribute {name!r}")
