"""Crash-safe writing of log lines and files: a killed process or a full disk costs at most the write in progress."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from selfsurf.browser_env.disk import append_whole


def append_line(path: Path, line: str) -> None:
    """Append a line in one write, which is undone if only a part of the line fits.

    A last line that was cut off by a kill is removed first, so that it can't corrupt the new line.

    Raises:
        OSError: the line could not be written, for example because the disk is full.
    """
    data = line.encode() + b"\n"
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        size = os.fstat(handle).st_size
        if size and os.pread(handle, 1, size - 1) != b"\n":
            size = os.pread(handle, size, 0).rfind(b"\n") + 1
            os.ftruncate(handle, size)
        append_whole(handle, data)
    finally:
        os.close(handle)


def write_file(path: Path, data: bytes) -> None:
    """Write a file atomically, readable by its owner only.

    Raises:
        OSError: the file could not be written; no part of it remains.
    """
    partial = path.with_name(path.name + ".partial")
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(data)
        os.replace(partial, path)
    except OSError:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise
