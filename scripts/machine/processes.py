"""Process trees: listing, resource usage, and termination."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import psutil


def descendants(pid: int) -> list[int]:
    """Return the ids of all processes below `pid`, parents before children, without `pid` itself."""
    return [process.pid for process in _tree(pid)[1:]]


def _tree(pid: int) -> list[psutil.Process]:
    """Return the process and all its descendants; empty if it has ended."""
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def kill_tree(pid: int) -> None:
    """Kill a process and all its descendants at once, including those with sessions of their own."""
    for process in reversed(_tree(pid)):
        with contextlib.suppress(psutil.Error):
            process.kill()


def memory(pid: int) -> float | None:
    """Return the memory of `pid` and its descendants in MiB, with shared pages counted proportionally; None if unknown.

    Only Linux reports proportional shares (PSS).
    """
    total = 0
    for process in (tree := _tree(pid)):
        try:
            total += process.memory_full_info().pss
        except (psutil.Error, AttributeError):
            if process.pid == pid:
                return None
    return total / 2**20 if tree else None


def cpu_seconds(pid: int) -> dict[str, float] | None:
    """Return the CPU seconds used so far by `python` (`pid` itself), `driver` and `browser`; None if unknown."""
    used = {"python": 0.0, "driver": 0.0, "browser": 0.0}
    for process in (tree := _tree(pid)):
        with contextlib.suppress(psutil.Error):  # the process has ended meanwhile
            name, times = process.name(), process.cpu_times()
            below = "driver" if name.startswith(("node", "MainThread")) else "browser"
            kind = "python" if process.pid == pid else below
            used[kind] += times.user + times.system
    return used if tree else None


@contextmanager
def ending_on_signal() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into `SystemExit` within this context, so that cleanup ends all child processes."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
