"""A background thread that runs jobs in order, so that callers never wait for the disk."""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable

_AT_EXIT = 10.0
"""Seconds that an exiting process waits for pending writes."""

_lanes: weakref.WeakSet[Lane] = weakref.WeakSet()


class Lane:
    """A queue of jobs run in order on a thread, which starts with the first job and ends after `close`.

    Args:
        name: name of the thread.
        failed: called with the exception of a failed job, on the thread.
    """

    def __init__(self, name: str, failed: Callable[[Exception], None]) -> None:
        self._name, self._failed = name, failed
        self._jobs: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = self._busy = False
        _lanes.add(self)

    def put(self, job: Callable[[], None]) -> None:
        """Queue a job. Jobs queued after `close` are still run."""
        with self._changed:
            self._jobs.append(job)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def close(self) -> None:
        """End the thread once all jobs are done."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for all jobs, with an optional timeout in seconds; return whether they are done."""
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
    for _ in range(3):  # several rounds, because jobs of one lane queue jobs on the other
        for lane in list(_lanes):
            lane.wait(max(0.0, until - time.monotonic()))
