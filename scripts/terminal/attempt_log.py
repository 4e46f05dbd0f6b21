"""The log of attempts that a command keeps, where one is wanted: its options, and the log."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from pydantic import Field

from selfsurf.browser_env.attempts.settings import VARIABLE, LogSettings
from selfsurf.scripts.terminal.command import Arguments

if TYPE_CHECKING:
    from selfsurf.browser_env.attempts.log import FileLog


class LogArguments(Arguments):
    """Where attempts are logged, and how much of the page is kept."""

    logs: Path | None = None
    """Root of the log of attempts (docs/logs.md); CLAW_LOG_DIR where that is set, else none is kept."""
    screenshot_every: int = Field(default=1, ge=0)
    """Keep the screenshot of every so many-th attempt, and of every failed one; 0: none."""
    snapshot_every: int = Field(default=1, ge=0)
    """Keep accessibility tree and DOM of every so many-th failure; 0: none."""

    @property
    def log_root(self) -> str | None:
        """Root of the log as an absolute path; None where no log is wanted."""
        root = self.logs or os.environ.get(VARIABLE)
        return str(Path(root).absolute()) if root else None

    @property
    def log_settings(self) -> LogSettings | None:
        """The log's settings; None where no log is wanted."""
        if (root := self.log_root) is None:
            return None
        return LogSettings(Path(root), screenshot_every=self.screenshot_every, snapshot_every=self.snapshot_every)


def check_logs(settings: LogSettings | None) -> None:
    """Refuse to go on where no log can be kept."""
    if settings is None:
        return
    try:
        settings.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = f"{settings.folder} can't be a folder to write into ({error.strerror})"
        raise typer.BadParameter(f"--logs: {why}.") from None


def attempt_log(settings: LogSettings | None, trace_id: str | None = None) -> FileLog | None:
    """Return a log of attempts, or None where none is wanted.

    Args:
        settings: of the log.
        trace_id: of the episode that goes on; a new one by default.
    """
    from selfsurf.browser_env.attempts.log import FileLog

    return None if settings is None else FileLog(trace_id or secrets.token_hex(6), settings)
