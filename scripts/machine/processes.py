"""Processes below a process: which there are, what they take, and how to end them all.

Memory and processor time are read from /proc, so they are known on Linux only.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

PROC = Path("/proc")


def descendants(pid: int) -> list[int]:
    """Return the ids of all processes below `pid`, parents before children, without `pid` itself."""
    children: dict[int, list[int]] = {}
    for child, parent in _parents():
        children.setdefault(parent, []).append(child)
    found: list[int] = []
    waiting = [pid]
    while waiting:
        below = children.get(waiting.pop(0), [])
        found += below
        waiting += below
    return found


def _parents() -> Iterator[tuple[int, int]]:
    if not (PROC / "self" / "stat").exists():
        listed = subprocess.run(["ps", "-axo", "pid=,ppid="], capture_output=True, text=True, check=True, timeout=30)
        for line in listed.stdout.splitlines():
            pid, parent = line.split()
            yield int(pid), int(parent)
        return
    for folder in PROC.iterdir():
        if folder.name.isdigit():
            fields = _stat(int(folder.name))
            if fields:
                yield int(folder.name), int(fields[1])


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on; empty if the process is gone."""
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def kill_tree(pid: int) -> None:
    """End a process and everything below it at once, also what has made itself a session of its own."""
    for one in [*reversed(descendants(pid)), pid]:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(one, signal.SIGKILL)


def memory(pid: int) -> float | None:
    """Return the memory of `pid` and all below it in MB of 2^20 bytes, shared pages by share; None if not known."""
    total = 0
    for one in [pid, *descendants(pid)]:
        try:
            lines = (PROC / str(one) / "smaps_rollup").read_text().splitlines()
        except (ProcessLookupError, FileNotFoundError):
            if one == pid:
                return None
            continue  # it has ended meanwhile
        except OSError:
            return None
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def cpu_seconds(pid: int) -> dict[str, float] | None:
    """Return the processor time used so far below `pid`: `python` (itself), `driver`, `browser`; None if not known."""
    if not _stat(pid):
        return None
    used = {"python": 0.0, "driver": 0.0, "browser": 0.0}
    for one in [pid, *descendants(pid)]:
        fields = _stat(one)
        try:
            name = (PROC / str(one) / "comm").read_text().strip()
        except OSError:
            continue
        kind = "python" if one == pid else "driver" if name.startswith(("node", "MainThread")) else "browser"
        if fields:
            used[kind] += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return used


@contextmanager
def ending_on_signal() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the program as an error does, so that everything it has started is ended, too."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
