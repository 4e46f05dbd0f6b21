"""How long the threads of OpenMP, which torch computes with, wait for work in a loop before they sleep.

Their runtimes let them loop for milliseconds, holding a core, after each of the thousands of small operations of a
model. Alone that saves up to a sixth of the time; beside another program it costs both of them most of theirs. GNU's
runtime, which torch brings on Linux, loops a tenth as long, or less, while its process has more threads than there are
cores. So a process that computes looks every second whether others want the cores, and keeps idle threads for as long.
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
"""Rounds of the loop in GNU's runtime while nobody else wants the cores; its own 300,000 are no faster. LLVM's (macOS,
some builds) lets others work as it is (`docs/speed.md#threads`)."""

VARIABLES = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")

LOOK = 1.0
"""Seconds between two looks at what others do."""

SPARE = 0.25
"""Cores that others may use without being crowded out: an idle system's own work."""

_STAT = Path("/proc/stat")


def set_waiting() -> None:
    """Set how long threads wait, unless the user has set one of `VARIABLES`.

    Takes effect in a process that has not loaded OpenMP yet, and in those that it starts.
    """
    if not any(os.environ.get(name) for name in VARIABLES):
        os.environ["GOMP_SPINCOUNT"] = SPIN


def in_force() -> dict[str, str]:
    """Return the variables that are set."""
    return {name: os.environ[name] for name in VARIABLES if os.environ.get(name)}


def share_cores() -> None:
    """Let torch's threads wait shorter while other programs want the cores; for a process that has loaded torch.

    Called again it does nothing; nor where the user has set one of `VARIABLES`, or the runtime isn't GNU's.
    """
    global _sharing
    with _starting:
        if _sharing is None and in_force() == {"GOMP_SPINCOUNT": SPIN} and (gomp := _gnu()) is not None:
            _sharing = _Sharing(gomp)
            _sharing.start()


def sharing() -> bool:
    """Whether this process has made room for others now."""
    return _sharing is not None and _sharing.held is not None


class _Sharing(threading.Thread):
    """Looks at what others do.

    Args:
        gomp: GNU's runtime, as it is loaded.
    """

    def __init__(self, gomp: ctypes.CDLL) -> None:
        super().__init__(name="threads", daemon=True)
        self._gomp = gomp
        self.held: threading.Event | None = None
        """Lets the idle threads go."""

    def run(self) -> None:
        """Look for as long as the process lasts."""
        with contextlib.suppress(OSError, ValueError):  # where the system doesn't tell
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
        """Keep so many threads of the runtime, this one included, until told; they go when it ends."""
        nothing = ctypes.cast(self._gomp.omp_get_thread_num, ctypes.c_void_p)
        self._gomp.GOMP_parallel(nothing, None, ctypes.c_uint(max(number, 2)), ctypes.c_uint(0))
        until.wait()


def _gnu() -> ctypes.CDLL | None:
    """GNU's runtime, if this process has loaded it; torch's own before others."""
    try:
        loaded = set(re.findall(r"/\S*libgomp\S*", Path("/proc/self/maps").read_text()))
    except OSError:
        return None
    return ctypes.CDLL(min(loaded, key=lambda path: ("/torch/" not in path, path))) if loaded else None


def _busy(cores: set[int]) -> float:
    """Seconds for which these cores have worked since the machine was started, for whomever."""
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
