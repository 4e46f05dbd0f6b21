"""Locks on profile folders: one browser per folder, and recovery of a folder whose owner was killed."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

from selfsurf.browser_env.errors import EnvError

_NAME = ".browser-env.lock"

_ORPHAN_BOUND = 3.0
"""Seconds that a browser may take to exit by itself after its environment was killed."""


class ProfileLock:
    """One environment's lock on a profile folder. The kernel releases it when the process dies.

    Chromium has a lock of its own (`SingletonLock`), which headless builds ignore: two of them would share a profile
    and damage it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file: int | None = None

    async def acquire(self, *, end_orphan: bool = True) -> None:
        """Lock the folder, creating it if needed, and end a browser that a killed process left behind.

        Args:
            end_orphan: whether to end that browser; False to continue using it.

        Raises:
            EnvError: the folder is used by another environment, browser or waiting run, or isn't writable.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            file = os.open(self.folder / _NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise EnvError(f"The profile folder {self.folder} can't be used: {error.strerror}.") from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if end_orphan:
                await self._end_orphan(os.pread(file, 8192, 0))
                self._look_for_other_browsers()
        except BlockingIOError:
            os.close(file)
            raise EnvError(
                f"The profile {self.folder} is in use by another environment. Close it, or use another folder."
            ) from None
        except BaseException:
            os.close(file)
            raise
        self._file = file

    def note_browser(self, pid: int, keeper: Path | None = None) -> None:
        """Record which browser uses the folder, so that the browser can be found when orphaned.

        Args:
            pid: process id of the browser.
            keeper: file that exists for as long as the browser is to outlive this process.
        """
        if self._file is not None:
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, f"{pid}\n{keeper or ''}".encode(), 0)

    def release(self) -> None:
        """Release the folder. Releasing twice is fine."""
        file, self._file = self._file, None
        if file is not None:
            os.ftruncate(file, 0)
            fcntl.flock(file, fcntl.LOCK_UN)  # a forked child may hold a copy of the file, and the lock with it
            os.close(file)

    async def _end_orphan(self, noted: bytes) -> None:
        number, _, keeper = os.fsdecode(noted).partition("\n")
        if not number.isdecimal():
            return
        pid = int(number)
        self._check_kept(pid, keeper)
        end = asyncio.get_running_loop().time() + _ORPHAN_BOUND
        while is_browser_on(pid, self.folder):
            if asyncio.get_running_loop().time() > end:
                kill(pid)
                return
            await asyncio.sleep(0.05)

    def _check_kept(self, pid: int, keeper: str) -> None:
        if keeper and Path(keeper).exists() and is_browser_on(pid, self.folder):
            raise EnvError(
                f"The profile {self.folder} is in use by a waiting run in {Path(keeper).parent}: finish the run "
                "(selfsurf answer), or use another folder."
            )

    def _look_for_other_browsers(self) -> None:
        try:
            host, _, pid = os.readlink(self.folder / "SingletonLock").rpartition("-")
        except OSError:
            return
        if host != socket.gethostname():
            raise EnvError(
                f"The profile {self.folder} is locked by a browser on the host {host!r}. If that browser has ended, "
                f"delete {self.folder / 'SingletonLock'}."
            )
        if pid.isdigit() and _BROWSER.search(command_of(int(pid))):
            raise EnvError(
                f"The profile {self.folder} is in use by a browser (process {pid}). Close it, or use another folder."
            )
        (self.folder / "SingletonLock").unlink(missing_ok=True)


def is_browser_on(pid: int, profile: Path) -> bool:
    """Whether a process is a browser with this profile."""
    return f"--user-data-dir={profile}" in command_of(pid)


_BROWSER = re.compile(r"--user-data-dir=|chrom", re.IGNORECASE)


def command_of(pid: int) -> str:
    """Return the command line of a process; empty if there is no such process."""
    if sys.platform == "linux":
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            return ""
    listed = subprocess.run(["ps", "-ww", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return listed.stdout


def kill(pid: int) -> None:
    """Kill a process, if it exists."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
