"""Atomic writes of files and lines, with errors that name a full folder and how to continue."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Error numbers for a full disk, an exhausted quota, and a file at its maximum size."""


AGAIN = "run the same command again."
ELSEWHERE = "run the command again with another folder, or move this folder away first."


class NoRoom(OSError):
    """The disk or quota of a folder is full.

    Args:
        folder: the full folder.
        then: how to continue once there is room, as the end of a sentence.
    """

    def __init__(self, folder: Path, then: str = AGAIN) -> None:
        super().__init__(
            f"There is no room left for {folder}. The files written so far are complete: make room, then {then}"
        )
        self.errno = errno.ENOSPC


@contextlib.contextmanager
def room_in(folder: Path, then: str = AGAIN) -> Iterator[None]:
    """Convert write errors caused by a full disk into `NoRoom` within this context.

    Raises:
        NoRoom: a write failed for lack of room; `then` explains how to continue.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in FULL or isinstance(error, NoRoom):
            raise
        raise NoRoom(folder, then) from error


def write_whole(path: Path, content: str | bytes) -> None:
    """Replace a file's content atomically. A failed write leaves no partial file.

    Raises:
        OSError: the file could not be written.
    """
    # unique to this thread, because others may write the same file
    partial = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}.partial")
    try:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def write_atomically(path: Path, content: str | bytes) -> None:
    """Replace a file's content atomically, with a readable error if the disk is full.

    Raises:
        NoRoom: the file's folder has no room left.
    """
    with room_in(path.parent):
        write_whole(path, content)


def append_whole(handle: int, data: bytes) -> None:
    """Append to an open file. If only a part of the data fits, that part is removed again.

    Raises:
        OSError: the data could not be written, for example because the disk is full.
    """
    size, written = os.fstat(handle).st_size, 0
    try:
        while written < len(data):
            written += os.write(handle, data[written:])
    except OSError:
        if written:
            with contextlib.suppress(OSError):
                os.ftruncate(handle, size)
                os.lseek(handle, size, os.SEEK_SET)
        raise


def intact_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield a JSON Lines file's entries up to the first line that a kill cut off; later lines are ignored."""
    for text in path.read_text(encoding="utf8").splitlines() if path.exists() else ():
        try:
            yield json.loads(text)
        except ValueError:
            return
