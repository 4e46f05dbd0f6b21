"""The optional attempt log of a command: its options, and the log."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from pydantic import AliasChoices, Field

from selfsurf.browser_env.attempts.settings import VARIABLE, LogSettings
from selfsurf.scripts.terminal.command import Arguments

if TYPE_CHECKING:
    from selfsurf.browser_env.attempts.log import FileLog


class LogArguments(Arguments):
    """Options of the attempt log: its folder, and which pages are saved."""

    attempt_log: Path | None = Field(default=None, validation_alias=AliasChoices("attempt_log", "logs"))
    """Root folder of the attempt log (docs/logs.md); CLAW_LOG_DIR if not given, and no log without either."""
    screenshot_every: int = Field(default=1, ge=0)
    """Interval in attempts at which a screenshot is saved, besides that of every failed attempt; 0 for none."""
    snapshot_every: int = Field(default=1, ge=0)
    """Interval in failed attempts at which the accessibility tree and DOM are saved; 0 for none."""

    @property
    def log_root(self) -> str | None:
        """Root of the attempt log as an absolute path; None for no log."""
        root = self.attempt_log or os.environ.get(VARIABLE)
        return str(Path(root).absolute()) if root else None

    @property
    def log_settings(self) -> LogSettings | None:
        """Settings of the attempt log; None for no log."""
        if (root := self.log_root) is None:
            return None
        return LogSettings(Path(root), screenshot_every=self.screenshot_every, snapshot_every=self.snapshot_every)


def check_logs(settings: LogSettings | None) -> None:
    """Refuse to continue if the log's folder can't be created."""
    if settings is None:
        return
    try:
        settings.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = f"{settings.folder} is not a folder that can be written ({error.strerror})"
        raise typer.BadParameter(f"--attempt-log: {why}.") from None


def attempt_log(settings: LogSettings | None, trace_id: str | None = None) -> FileLog | None:
    """Return an attempt log, or None without settings.

    Args:
        settings: Settings of the log.
        trace_id: Trace id of the episode to continue; a new id if None.
    """
    from selfsurf.browser_env.attempts.log import FileLog

    return None if settings is None else FileLog(trace_id or secrets.token_hex(6), settings)
