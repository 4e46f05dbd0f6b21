"""Keeps two processes, and two purposes, from writing into one folder.

The kernel lets go of a lock when its process ends, however it does.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import TextIO, cast

_NOTES = (".log", ".txt", ".out", ".err")
"""Files that may be in a folder before anything begins there, such as what is written of a command's output."""


def something_else(folder: Path) -> str:
    """Name what is in a folder already, hidden files and notes left out; empty if there is nothing."""
    others = (path.name for path in folder.iterdir() if not path.name.startswith(".") and path.suffix not in _NOTES)
    return min(others, default="")


class FolderInUse(ValueError):
    """Another process, or another part of this one, writes into the folder."""


class FolderLock:
    """A `folder` held until `release`; it is made if need be. Where the file system has no locks nobody is kept out.

    Raises:
        FolderInUse: it is held already.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise FolderInUse(f"Another process is running in {folder}: wait for it, or give another folder.") from None
        except OSError:  # a network's file system, for example
            return

    def release(self) -> None:
        """Let go of the folder, once."""
        with contextlib.suppress(OSError):
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)  # a forked child may hold a copy of it
        os.close(self._descriptor)


def open_held(path: Path, mode: str) -> TextIO:
    """Open a file to write, with a lock that shows for as long as it is open (`is_held`)."""
    file = path.open(mode, encoding="utf8")
    with contextlib.suppress(OSError):  # a network's file system, for example
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return cast("TextIO", file)


def is_held(path: Path) -> bool:
    """Whether somebody has opened a file by `open_held` and writes it still."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # it is not there, or its file system has no locks
        pass
    return False
