"""A thread that works off what it is handed, in order, so that whoever hands it over never waits for a disk."""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable

_AT_EXIT = 10.0
"""Seconds that a process which ends waits for what is left to be written."""

_lanes: weakref.WeakSet[Lane] = weakref.WeakSet()


class Lane:
    """Runs jobs one after the other on a thread that starts with the first and ends with `close`.

    Args:
        name: of the thread.
        failed: told of a job's exception, on the thread.
    """

    def __init__(self, name: str, failed: Callable[[Exception], None]) -> None:
        self._name, self._failed = name, failed
        self._jobs: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = self._busy = False
        _lanes.add(self)

    def put(self, job: Callable[[], None]) -> None:
        """Hand over a job; what comes after `close` is still done."""
        with self._changed:
            self._jobs.append(job)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def close(self) -> None:
        """End the thread once everything is done."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until everything is done; return whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._jobs and not self._busy, seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._jobs or self._closed)
                if not self._jobs:
                    self._thread = None
                    return
                job, self._busy = self._jobs.popleft(), True
            try:
                job()
            except Exception as error:
                self._failed(error)


@atexit.register
def _finish() -> None:
    until = time.monotonic() + _AT_EXIT
    for _ in range(3):  # a line's artifacts, and then the summary, go from one lane to the other
        for lane in list(_lanes):
            lane.wait(max(0.0, until - time.monotonic()))
