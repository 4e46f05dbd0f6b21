"""Ctrl-C, or a SIGTERM, that ends a piece of work exactly once, and never in the middle of putting things away."""

from __future__ import annotations

import signal
from types import FrameType


class Interrupts:
    """Turns the first SIGINT or SIGTERM into a `KeyboardInterrupt`, and every further one into nothing.

    A library may swallow the exception, or turn it into one of its own: `seen` tells, and `check` raises it again.
    For the main thread, as a context manager. The handlers that were there before are put back, unless there was a
    signal: then the process is about to end, and with its own exit code, however often Ctrl-C is pressed.
    """

    def __init__(self) -> None:
        self.exit_code = 0
        """After a signal what shells count: 128 and the signal's number."""
        self._held = False

    @property
    def seen(self) -> bool:
        """Whether there has been a signal."""
        return self.exit_code != 0

    def __enter__(self) -> Interrupts:
        self._before = {each: signal.signal(each, self._handle) for each in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for each, before in self._before.items():
            signal.signal(each, signal.SIG_IGN if self.seen else before)
        if self.seen:
            # An interrupt that passes through the exec of a string, such as a dataclass is made with, lets CPython end
            # the process by SIGINT instead of with its exit code, although it was caught. Another exec undoes that.
            exec("")

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.seen:
            return
        self.exit_code = 128 + number
        if not self._held:
            raise KeyboardInterrupt

    def check(self) -> None:
        """Raise `KeyboardInterrupt` if there has been one."""
        if self.seen:
            raise KeyboardInterrupt

    def hold(self) -> None:
        """From here on only note it: what follows is to be finished."""
        self._held = True

    def release(self) -> None:
        """Go on as before `hold`, and make up for what was noted meanwhile."""
        self._held = False
        self.check()
