"""Locks that keep two processes, or two parts of one process, from writing into the same folder.

The kernel releases a lock when its process ends, for whatever reason.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import TextIO, cast

_NOTES = (".log", ".txt", ".out", ".err")
"""Suffixes of files that may exist in a folder before a run starts there, such as the redirected output of a command.
"""


def something_else(folder: Path) -> str:
    """Return the name of a file already in a folder, ignoring hidden files and notes; empty if there is none."""
    others = (path.name for path in folder.iterdir() if not path.name.startswith(".") and path.suffix not in _NOTES)
    return min(others, default="")


class FolderInUse(ValueError):
    """Another process, or another part of this one, is writing into the folder."""


class FolderLock:
    """An exclusive lock on `folder` until `release`. The folder is created if missing.

    File systems without locks keep nobody out.

    Raises:
        FolderInUse: the folder is already locked.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise FolderInUse(f"Another process is using {folder}: wait for it, or choose another folder.") from None
        except OSError:  # a network file system, for example
            return

    def release(self) -> None:
        """Release the lock. Must be called only once."""
        with contextlib.suppress(OSError):
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)  # a forked child may hold a copy of the descriptor
        os.close(self._descriptor)


def open_held(path: Path, mode: str) -> TextIO:
    """Open a file for writing, with a lock that `is_held` detects while the file is open."""
    file = path.open(mode, encoding="utf8")
    with contextlib.suppress(OSError):  # a network file system, for example
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return cast("TextIO", file)


def is_held(path: Path) -> bool:
    """Whether a file opened by `open_held` is still being written."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # the file is missing, or its file system has no locks
        pass
    return False
