"""Ctrl-C, or a SIGTERM, that ends a piece of work exactly once, and never in the middle of putting things away."""

from __future__ import annotations

import signal
import threading
from types import FrameType

AGAIN = 0.02
"""Seconds until a signal that came during an import is looked at again; a choice."""


def restore_interrupts() -> None:
    """Have Ctrl-C raise `KeyboardInterrupt` again, if it ends the process until now (`selfsurf/__init__.py`)."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, _raise)


def _raise(number: int, frame: FrameType | None) -> None:
    if not _put_off(number, frame):
        raise KeyboardInterrupt


def _put_off(number: int, frame: FrameType | None) -> bool:
    """Have a signal come again a little later if a module is being imported, and say whether it will.

    A library written in C++ may end the process by `std::terminate` where an exception reaches its initialization.
    """
    while frame is not None and frame.f_globals.get("__name__") != "importlib._bootstrap":
        frame = frame.f_back
    if frame is None:
        return False
    again = threading.Timer(AGAIN, signal.pthread_kill, (threading.main_thread().ident, number))
    again.daemon = True
    again.start()
    return True


class Interrupts:
    """Turns the first SIGINT or SIGTERM into a `KeyboardInterrupt`, and every further one into nothing.

    While modules are imported it is only noted, and raised once they are.

    A library may swallow the exception, or turn it into one of its own: `seen` tells, and `check` raises it again.
    For the main thread, as a context manager. The handlers that were there before are put back, unless there was a
    signal: then the process is about to end, and with its own exit code, however often Ctrl-C is pressed.
    """

    def __init__(self) -> None:
        self.exit_code = 0
        """After a signal what shells count: 128 and the signal's number."""
        self._held = False
        self._noted = False
        """Whether the first signal came during an import and is still to be raised."""

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
        from selfsurf.browser_env.safety import terminal

        terminal.ended.set()  # a question that nobody has answered keeps no thread

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.seen and not self._noted:
            return
        self.exit_code = self.exit_code or 128 + number
        self._noted = not self._held and _put_off(number, frame)
        if not self._held and not self._noted:
            raise KeyboardInterrupt

    def check(self) -> None:
        """Raise `KeyboardInterrupt` if there has been one."""
        if self.seen:
            self._noted = False
            raise KeyboardInterrupt

    def hold(self) -> None:
        """From here on only note it: what follows is to be finished."""
        self._held = True

    def release(self) -> None:
        """Go on as before `hold`, and make up for what was noted meanwhile."""
        self._held = False
        self.check()
