"""A browser's error stream, kept to explain why the browser has ended.

Playwright only reports that the browser "has been closed". The browser is started by a line of shell that appends the
stream to a file. Once the browser runs, the file is unlinked: nothing is left behind, however the process ends.
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
"""Maximum bytes kept of a browser's messages."""

LAST = 2
"""Number of last lines that explain a browser's end."""

_ORIGIN = re.compile(r"^\[[^\]]*\] ?")
"""Prefix of a Chromium message, such as `[1124/202641.613099:ERROR:base/i18n/icu_util.cc:237] `."""

_OF_NO_USE = re.compile(
    r"^\s*$|^\[[^\]]*:(INFO|WARNING|VERBOSE\d+):|^#\d+ 0x|end of stack trace|^DevTools listening|dbus|drmGetDevices2"
)
"""Lines without information: stack frames, and messages of any Chromium without a desktop and a graphics card."""


class StderrCapture:
    """The error stream of a browser to be started.

    Args:
        browser: path of the browser.
        before: prefix for the browser's command line.
    """

    def __init__(self, browser: str, before: Sequence[str] = ()) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="selfsurf-browser-"))
        self._stream = (self._folder / "stderr").open("a+b")
        start = self._folder / "browser"
        command = join([*before, browser])
        start.write_text(f'#!/bin/sh\nexec {command} "$@" 2>>{quote(self._stream.name)}\n', encoding="utf8")
        start.chmod(0o700)
        self.program = str(start) if os.access(start, os.X_OK) else browser
        """Program to start: a wrapper, or the browser itself if the temporary folder allows no executables."""

    def started(self) -> None:
        """Remove the stream's folder, once the browser has opened the file or failed to start."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def trim(self) -> None:
        """Empty the stream if it has grown larger than `MOST`."""
        if os.fstat(self._stream.fileno()).st_size > MOST:
            self._stream.truncate(0)

    def __str__(self) -> str:
        size = os.fstat(self._stream.fileno()).st_size
        text = os.pread(self._stream.fileno(), MOST, max(0, size - MOST)).decode("utf8", "replace")
        lines = [_ORIGIN.sub("", line).strip() for line in text.splitlines() if not _OF_NO_USE.search(line)]
        return one_line(" ".join(dict.fromkeys(lines[-LAST:])), 300)
