"""Write-ahead journal of the current step: after a kill, it shows which action may have been performed.

    {"step": 3, "event": "intent", ...}   the action is about to be sent, with the observation it is based on
    {"step": 3, "event": "asked", ...}    the action waits for a person instead
    {"step": 3, "event": "answered", ...} the person's answer; a confirmed action is about to be sent
    {"step": 4, "event": "at", ...}       the previous step is recorded; pages to open if the browser is lost

A line is synced to disk before its method returns.
"""

from __future__ import annotations

import json
import os
import time as clock
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from selfsurf.browser_env.safety.secrets import redact_known
from selfsurf.browser_env.text import well_formed


class Journal:
    """The journal of one episode, in a file that only its owner can read.

    Args:
        path: file of the journal; existing lines are kept.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        whole = b"".join(line for line in _lines(path) if line.endswith(b"\n"))
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.ftruncate(self._file, len(whole))  # a last line cut off by a kill would corrupt the next one
        os.lseek(self._file, 0, os.SEEK_END)

    def write(self, step: int, event: str, **more: Any) -> None:
        """Append a line and sync it to disk."""
        line = json.dumps(redact_known({"step": step, "event": event, "time": clock.time(), **more}), default=str)
        os.write(self._file, (well_formed(line) + "\n").encode())
        os.fsync(self._file)

    def close(self) -> None:
        """Close the file. Must be called only once."""
        os.close(self._file)


def read_journal(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a journal, except a last line that was cut off."""
    return [json.loads(line) for line in _lines(path) if line.endswith(b"\n")]


def under_way(lines: list[dict[str, Any]], step: int) -> list[Mapping[str, Any]]:
    """Return the journal's lines about a step from its last intent on; empty if there is none."""
    own = [line for line in lines if line["step"] == step and line["event"] != "at"]
    last = max((number for number, line in enumerate(own) if line["event"] == "intent"), default=len(own))
    return list(own[last:])


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True) if path.exists() else []
