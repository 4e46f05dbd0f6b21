"""What a browser writes on its error stream, kept to explain its end: Playwright says only that it "has been closed".

The browser is started by a line of shell that appends the stream to a file. Once the browser runs, the file has no name
any more: nothing is left behind, however the process ends.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from shlex import join, quote

from selfsurf.browser_env.text import one_line

MOST = 1 << 20
"""Bytes that are kept of a browser's messages."""

LAST = 2
"""Lines that count as its last words."""

_ORIGIN = re.compile(r"^\[[^\]]*\] ?")
"""`[1124/202641.613099:ERROR:base/i18n/icu_util.cc:237] `"""

_OF_NO_USE = re.compile(
    r"^\s*$|^\[[^\]]*:(INFO|WARNING|VERBOSE\d+):|^#\d+ 0x|end of stack trace|^DevTools listening|dbus|drmGetDevices2"
)
"""Stack frames, and what Chromium says wherever there is no desktop and no graphics card."""


class LastWords:
    """The error stream of a browser that is to be started.

    Args:
        browser: its path.
        before: what to put before its command line.
    """

    def __init__(self, browser: str, before: Sequence[str] = ()) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="selfsurf-browser-"))
        self._stream = (self._folder / "stderr").open("a+b")
        start = self._folder / "browser"
        command = join([*before, browser])
        start.write_text(f'#!/bin/sh\nexec {command} "$@" 2>>{quote(self._stream.name)}\n', encoding="utf8")
        start.chmod(0o700)
        self.program = str(start) if os.access(start, os.X_OK) else browser
        """What to start: the browser by itself where no program may be in the folder for temporary files."""

    def started(self) -> None:
        """Take the names away: the browser has opened the file, or never will."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def trim(self) -> None:
        """Forget what has become too much."""
        if os.fstat(self._stream.fileno()).st_size > MOST:
            self._stream.truncate(0)

    def __str__(self) -> str:
        size = os.fstat(self._stream.fileno()).st_size
        text = os.pread(self._stream.fileno(), MOST, max(0, size - MOST)).decode("utf8", "replace")
        lines = [_ORIGIN.sub("", line).strip() for line in text.splitlines() if not _OF_NO_USE.search(line)]
        return one_line(" ".join(dict.fromkeys(lines[-LAST:])), 300)
