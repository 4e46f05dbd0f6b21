"""Processes below a process: which there are, what they take, and how to end them all."""

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
    """The process and all below it; empty if it is gone."""
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def kill_tree(pid: int) -> None:
    """End a process and everything below it at once, also what has made itself a session of its own."""
    for process in reversed(_tree(pid)):
        with contextlib.suppress(psutil.Error):
            process.kill()


def memory(pid: int) -> float | None:
    """Return the memory of `pid` and all below it in MB of 2^20 bytes, shared pages by share; None if not known.

    Only Linux knows the share of a page (PSS).
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
    """Return the processor time used so far below `pid`: `python` (itself), `driver`, `browser`; None if not known."""
    used = {"python": 0.0, "driver": 0.0, "browser": 0.0}
    for process in (tree := _tree(pid)):
        with contextlib.suppress(psutil.Error):  # it has ended meanwhile
            name, times = process.name(), process.cpu_times()
            below = "driver" if name.startswith(("node", "MainThread")) else "browser"
            kind = "python" if process.pid == pid else below
            used[kind] += times.user + times.system
    return used if tree else None


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
