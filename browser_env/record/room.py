"""Says of a write that failed for want of room which folder lacks it, and how to go on."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What the system says of a full disk, a used up quota, and a file that has reached the largest size allowed."""


class NoRoom(OSError):
    """A folder has no room left.

    Args:
        folder: which.
        then: how to go on once there is room, as the end of a sentence.
    """

    def __init__(self, folder: Path, then: str = "run the same command again.") -> None:
        super().__init__(f"There is no room left for {folder}. What stands there is whole: make room, then {then}")
        self.errno = errno.ENOSPC


@contextlib.contextmanager
def room_in(folder: Path) -> Iterator[None]:
    """Within this context, a write that fails for want of room says so.

    Raises:
        NoRoom: it did.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in FULL or isinstance(error, NoRoom):
            raise
        raise NoRoom(folder) from error
