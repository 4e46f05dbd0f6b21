"""Spin time of idle OpenMP threads, which torch computes with.

OpenMP runtimes let idle threads spin for milliseconds, holding a core, after each of a model's thousands of small
operations. On a free machine that saves up to a sixth of the time; beside another program it costs both of them most of
theirs. GNU's runtime, which torch brings on Linux, spins a tenth as long, or less, while its process has more threads
than there are cores. So a computing process checks every second whether others need the cores, and keeps idle threads
as long as they do.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import sys
import threading
import time
from pathlib import Path

SPIN = "10000"
"""Spin count of GNU's runtime while no other program needs the cores; its default of 300,000 is no faster. LLVM's
runtime (macOS, some builds) shares the cores without help (`docs/speed.md#threads`)."""

VARIABLES = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")

LOOK = 1.0
"""Seconds between two checks of the load by other programs."""

SPARE = 0.25
"""Load by other programs, in cores, that is tolerated because even an idle system causes it."""

_STAT = Path("/proc/stat")


def set_waiting() -> None:
    """Set how long idle threads spin, unless the user has set one of `VARIABLES`.

    Affects this process if OpenMP is not loaded yet, and the processes that it starts.
    """
    if not any(os.environ.get(name) for name in VARIABLES):
        os.environ["GOMP_SPINCOUNT"] = SPIN


def in_force() -> dict[str, str]:
    """Return those of `VARIABLES` that are set, with their values."""
    return {name: os.environ[name] for name in VARIABLES if os.environ.get(name)}


def share_cores() -> None:
    """Let torch's threads spin for a shorter time while other programs need the cores. Requires torch to be loaded.

    Repeated calls have no effect, nor has a call if the user has set one of `VARIABLES` or the runtime isn't GNU's.
    """
    global _sharing
    with _starting:
        if _sharing is None and in_force() == {"GOMP_SPINCOUNT": SPIN} and (gomp := _gnu()) is not None:
            _sharing = _Sharing(gomp)
            _sharing.start()


def sharing() -> bool:
    """Whether this process currently makes room for other programs."""
    return _sharing is not None and _sharing.held is not None


class _Sharing(threading.Thread):
    """A thread that monitors the load by other programs.

    Args:
        gomp: GNU's runtime as loaded by this process.
    """

    def __init__(self, gomp: ctypes.CDLL) -> None:
        super().__init__(name="threads", daemon=True)
        self._gomp = gomp
        self.held: threading.Event | None = None
        """Event that releases the idle threads; None while there are none."""

    def run(self) -> None:
        """Monitor the load until the process exits."""
        with contextlib.suppress(OSError, ValueError):  # the system may not provide the load
            cores = os.sched_getaffinity(0)
            busy, own, now = _busy(cores), time.process_time(), time.monotonic()
            while True:
                time.sleep(LOOK)
                before, busy = busy, _busy(cores)
                before_own, own = own, time.process_time()
                since, now = now, time.monotonic()
                others = ((busy - before) - (own - before_own)) / (now - since)
                team = sys.modules["torch"].get_num_threads()
                crowded = team > 1 and others + team > len(cores) + SPARE
                if crowded and self.held is None:
                    self.held = threading.Event()
                    threading.Thread(target=self._hold, args=(self.held, len(cores) - team + 2), daemon=True).start()
                elif not crowded and self.held is not None:
                    self.held.set()
                    self.held = None

    def _hold(self, until: threading.Event, number: int) -> None:
        """Keep a number of runtime threads alive, including this one, until the event `until` is set."""
        nothing = ctypes.cast(self._gomp.omp_get_thread_num, ctypes.c_void_p)
        self._gomp.GOMP_parallel(nothing, None, ctypes.c_uint(max(number, 2)), ctypes.c_uint(0))
        until.wait()


def _gnu() -> ctypes.CDLL | None:
    """Return GNU's runtime if this process has loaded it, preferably torch's own copy."""
    try:
        loaded = set(re.findall(r"/\S*libgomp\S*", Path("/proc/self/maps").read_text()))
    except OSError:
        return None
    return ctypes.CDLL(min(loaded, key=lambda path: ("/torch/" not in path, path))) if loaded else None


def _busy(cores: set[int]) -> float:
    """Return the seconds for which these cores have been busy since boot, for any program."""
    names = {f"cpu{core}" for core in cores}
    ticks = 0
    for line in _STAT.read_text().splitlines():
        name, *numbers = line.split()
        if name in names:
            user, nice, system, _, _, irq, soft_irq = map(int, numbers[:7])
            ticks += user + nice + system + irq + soft_irq
    return ticks / os.sysconf("SC_CLK_TCK")


_starting = threading.Lock()
_sharing: _Sharing | None = None
