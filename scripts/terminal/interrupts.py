"""Ctrl-C and SIGTERM that end work exactly once, and never in the middle of cleaning up."""

from __future__ import annotations

import signal
import threading
from types import FrameType

AGAIN = 0.02
"""Seconds until a signal that arrived during an import is sent again; chosen, not measured."""


def restore_interrupts() -> None:
    """Make Ctrl-C raise `KeyboardInterrupt` again if it currently kills the process (see `selfsurf/__init__.py`)."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, _raise)


def _raise(number: int, frame: FrameType | None) -> None:
    if not _put_off(number, frame):
        raise KeyboardInterrupt


def _put_off(number: int, frame: FrameType | None) -> bool:
    """Resend a signal a little later if a module is being imported; return whether it was postponed.

    An exception during the initialization of a C++ library may end the process by `std::terminate`.
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
    """A context manager that turns the first SIGINT or SIGTERM into a `KeyboardInterrupt` and ignores later ones.

    During imports a signal is only recorded, and raised afterwards. A library may swallow or convert the exception:
    `seen` still reports it, and `check` raises it again.

    For the main thread only. The previous handlers are restored on exit, unless there was a signal: then the process is
    about to end with its own exit code, and further signals are ignored.
    """

    def __init__(self) -> None:
        self.exit_code = 0
        """Exit code by shell convention: 128 plus the signal's number; 0 without a signal."""
        self._held = False
        self._noted = False
        """Whether the first signal came during an import and has yet to be raised."""

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
            # A KeyboardInterrupt that passes through the exec of a string, as in the creation of a dataclass, makes
            # CPython end the process by SIGINT instead of with its exit code, even if it was caught. Another exec
            # resets that.
            exec("")
        from selfsurf.browser_env.safety import terminal

        terminal.ended.set()  # an unanswered prompt must not keep a thread alive

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.seen and not self._noted:
            return
        self.exit_code = self.exit_code or 128 + number
        self._noted = not self._held and _put_off(number, frame)
        if not self._held and not self._noted:
            raise KeyboardInterrupt

    def check(self) -> None:
        """Raise `KeyboardInterrupt` if there has been a signal."""
        if self.seen:
            self._noted = False
            raise KeyboardInterrupt

    def hold(self) -> None:
        """Only record signals from now on, because the following work must be finished."""
        self._held = True

    def release(self) -> None:
        """End `hold`, and raise `KeyboardInterrupt` if a signal came meanwhile."""
        self._held = False
        self.check()
