"""How long the threads of OpenMP, which torch computes with, wait for work in a loop before they sleep.

Their runtimes let them loop for milliseconds, holding a core, after each of the thousands of small operations of a
model. Alone that saves little; beside another program it costs both of them most of their time.
"""

from __future__ import annotations

import os

SHORT = {
    "GOMP_SPINCOUNT": "1000",  # GNU's, which torch brings on Linux: rounds of the loop, by default 300,000
    "KMP_BLOCKTIME": "0",  # LLVM's and Intel's, on macOS and in some builds: milliseconds, by default 200
}
"""What is set unless the user has set one of these variables or `OMP_WAIT_POLICY` (`docs/speed.md#threads`)."""

VARIABLES = (*SHORT, "OMP_WAIT_POLICY")


def set_waiting() -> None:
    """Let threads sleep soon. Takes effect in a process that has not loaded OpenMP yet, and in those that it starts."""
    if not any(name in os.environ for name in VARIABLES):
        os.environ.update(SHORT)


def in_force() -> dict[str, str]:
    """Return the variables that are set."""
    return {name: os.environ[name] for name in VARIABLES if name in os.environ}
