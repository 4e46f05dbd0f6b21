"""How much a time limit has to stretch while other programs crowd the processor.

A limit tells what hangs from what is slow, and on a crowded machine everything is. So limits are counted in seconds of
a machine with a free core: where five threads want two cores, one such second takes two and a half.
"""

from __future__ import annotations

import os
from pathlib import Path

LONGEST = 8.0
"""A limit lasts at most this many times as long as it says."""

TICK = 0.5
"""Seconds between two looks at the machine."""

_LOADAVG = Path("/proc/loadavg")


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def share() -> float:
    """Return which part of a core a thread that wants one gets now: 1 while a core is free, `1 / LONGEST` at least.

    Linux tells how many threads want to run at this moment; elsewhere it is the mean of the last minute.
    """
    try:
        wanting = float(_LOADAVG.read_text().split()[3].partition("/")[0])
    except (OSError, ValueError, IndexError):
        wanting = os.getloadavg()[0] if hasattr(os, "getloadavg") else 1.0
    return max(min(1.0, cores() / max(wanting, 1.0)), 1 / LONGEST)


def stretched(seconds: float) -> float:
    """Return how long a limit of so many seconds lasts if the machine stays as crowded as it is."""
    return seconds / share()
