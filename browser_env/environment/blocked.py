"""Interruption of task code that blocks the environments' event loop, such as a `score` that polls with `time.sleep`.

Code on the loop can't notice a blocked loop, so a thread watches. A single call that blocks in C, such as a socket
without a timeout, can't be interrupted, only logged.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType

_log = logging.getLogger(__name__)

PERIOD = 0.1
"""Seconds between two checks of the watched code."""


class Blocked(BaseException):
    """Raised inside the code that blocks. A BaseException, so that `except Exception` in that code doesn't catch it."""


@dataclass(eq=False)
class _Watched:
    caller: CodeType
    owner: object
    thread: int
    end: float
    what: str
    told: bool = False


_watched: list[_Watched] = []
_lock = threading.Lock()
_any = threading.Event()
_watcher: threading.Thread | None = None


@contextlib.contextmanager
def not_blocking(caller: CodeType, owner: object, seconds: float, what: str) -> Iterator[None]:
    """Raise `Blocked` inside this context if its code still holds up the thread after `seconds`.

    Args:
        caller: code object of the method that calls the watched code; the watcher searches the thread's stack for it.
        owner: the instance whose method `caller` is.
        seconds: time limit of the watched code.
        what: description of the code for the log.

    Raises:
        Blocked: the code blocked for too long.
    """
    global _watcher
    one = _Watched(caller, owner, threading.get_ident(), time.monotonic() + seconds, what)
    with _lock:
        _watched.append(one)
        if _watcher is None or not _watcher.is_alive():  # the first time, and after a fork
            _watcher = threading.Thread(target=_watch, name="blocked", daemon=True)
            _watcher.start()
    _any.set()
    try:
        yield
    finally:
        with _lock:
            _watched.remove(one)


def _watch() -> None:
    while True:
        if not _watched:
            _any.clear()
            _any.wait(None if not _watched else PERIOD)
        time.sleep(PERIOD)
        now = time.monotonic()
        with _lock:
            for one in [each for each in _watched if now > each.end and not each.told and _holds_up(each)]:
                one.told = True
                _log.warning("%s blocks the event loop and is being interrupted.", one.what)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(one.thread), ctypes.py_object(Blocked))


def _holds_up(one: _Watched) -> bool:
    """Whether the watched call is on its thread's stack now, rather than waiting for something on the loop."""
    frame = sys._current_frames().get(one.thread)
    while frame is not None and not (frame.f_code is one.caller and frame.f_locals.get("self") is one.owner):
        frame = frame.f_back
    return frame is not None


def _begin_anew() -> None:
    """Reset the state in a forked child: the watcher thread doesn't exist there, and a lock may be held forever."""
    global _lock, _any
    _lock, _any = threading.Lock(), threading.Event()
    _watched.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
