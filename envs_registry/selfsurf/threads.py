"""How long the threads of OpenMP, which torch computes with, wait for work in a loop before they sleep.

Their runtimes let them loop for milliseconds, holding a core, after each of the thousands of small operations of a
model. Alone that saves little; beside another program it costs both of them most of their time.
"""

from __future__ import annotations

import os

SHORT = "1000"
"""Rounds of the loop in GNU's runtime, which torch brings on Linux; its own default is 300,000. LLVM's (macOS, some
builds) lets others work as it is (`docs/speed.md#threads`)."""

VARIABLES = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")


def set_waiting() -> None:
    """Let threads sleep soon, unless the user has set one of `VARIABLES`.

    Takes effect in a process that has not loaded OpenMP yet, and in those that it starts.
    """
    if not any(os.environ.get(name) for name in VARIABLES):
        os.environ["GOMP_SPINCOUNT"] = SHORT


def in_force() -> dict[str, str]:
    """Return the variables that are set."""
    return {name: os.environ[name] for name in VARIABLES if os.environ.get(name)}
