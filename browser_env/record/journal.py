"""What the step under way has come to: on disk before it happens, so that a killed run knows what it may have done.

    {"step": 3, "event": "intent", ...}   the action is about to be sent, with the observation that it answers
    {"step": 3, "event": "asked", ...}    it waits for a person instead
    {"step": 3, "event": "answered", ...} what the person said; a confirmed action is about to be sent
    {"step": 4, "event": "at", ...}       the step before is recorded; what to open if the browser is lost

A line is on the disk, not only in the system's memory, when its method returns.
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
    """The journal of one episode. Its file can be read by its user alone.

    Args:
        path: of the file; what is there is kept.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        whole = b"".join(line for line in _lines(path) if line.endswith(b"\n"))
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.ftruncate(self._file, len(whole))  # a last line that a kill cut off would spoil the next one
        os.lseek(self._file, 0, os.SEEK_END)

    def write(self, step: int, event: str, **more: Any) -> None:
        """Add a line."""
        line = json.dumps(redact_known({"step": step, "event": event, "time": clock.time(), **more}), default=str)
        os.write(self._file, (well_formed(line) + "\n").encode())
        os.fsync(self._file)

    def close(self) -> None:
        """Close the file, once."""
        os.close(self._file)


def read_journal(path: Path) -> list[dict[str, Any]]:
    """Return the lines, without a last one that was cut off."""
    return [json.loads(line) for line in _lines(path) if line.endswith(b"\n")]


def under_way(lines: list[dict[str, Any]], step: int) -> list[Mapping[str, Any]]:
    """Return what is known of the step with this number: nothing, or its last intent and what followed."""
    own = [line for line in lines if line["step"] == step and line["event"] != "at"]
    last = max((number for number, line in enumerate(own) if line["event"] == "intent"), default=len(own))
    return list(own[last:])


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True) if path.exists() else []
