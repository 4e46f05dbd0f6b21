"""Writes files and lines whole or not at all, and says where a folder lacks room for them, and how to go on."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What the system says of a full disk, a used up quota, and a file that has reached the largest size allowed."""


AGAIN = "run the same command again."
ELSEWHERE = "run the command again into another folder, or move this one away first."


class NoRoom(OSError):
    """A folder has no room left.

    Args:
        folder: which.
        then: how to go on once there is room, as the end of a sentence.
    """

    def __init__(self, folder: Path, then: str = AGAIN) -> None:
        super().__init__(f"There is no room left for {folder}. What stands there is whole: make room, then {then}")
        self.errno = errno.ENOSPC


@contextlib.contextmanager
def room_in(folder: Path, then: str = AGAIN) -> Iterator[None]:
    """Within this context, a write that fails for want of room says so.

    Raises:
        NoRoom: it did. `then` says how to go on.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in FULL or isinstance(error, NoRoom):
            raise
        raise NoRoom(folder, then) from error


def write_whole(path: Path, content: str | bytes) -> None:
    """Replace a file's content so that a reader, or a kill, never meets half of it. A write that fails leaves nothing.

    Raises:
        OSError: the file could not be written.
    """
    partial = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}.partial")  # others may write it, too
    try:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def write_atomically(path: Path, content: str | bytes) -> None:
    """Replace a file's content by `write_whole`.

    Raises:
        NoRoom: its folder has no room left.
    """
    with room_in(path.parent):
        write_whole(path, content)


def append_whole(handle: int, data: bytes) -> None:
    """Append to an open file. If only a part of the data fits, that part is taken back.

    Raises:
        OSError: the data could not be written, such as on a full disk.
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
