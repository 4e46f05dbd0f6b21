"""The log of attempts that a command keeps, where one is wanted."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from selfsurf.browser_env.attempts.settings import VARIABLE, LogSettings

if TYPE_CHECKING:
    from selfsurf.browser_env.attempts.log import FileLog


def check_logs(root: Path | None) -> None:
    """Refuse to go on where no log can be kept.

    Args:
        root: of the log; None: what `CLAW_LOG_DIR` names, if it names one.
    """
    if not _wanted(root):
        return
    folder = LogSettings(root=root).folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise typer.BadParameter(f"--logs: {folder} can't be a folder to write into ({error.strerror}).") from None


def attempt_log(root: Path | None, trace_id: str | None = None) -> FileLog | None:
    """Return a log of attempts, or None where none is wanted.

    Args:
        root: as for `check_logs`.
        trace_id: of the episode that goes on; a new one by default.
    """
    from selfsurf.browser_env.attempts.log import FileLog

    return FileLog(trace_id or secrets.token_hex(6), LogSettings(root=root)) if _wanted(root) else None


def _wanted(root: Path | None) -> bool:
    return root is not None or bool(os.environ.get(VARIABLE))
