"""Settings of the attempt log: where it is stored, how much of each page is kept, and for how long."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "CLAW_LOG_DIR"
"""Environment variable with the root folder of the log, used if `LogSettings.root` is not set."""

FOLDER = "browser-automation"
"""Name of the log folder below the root."""


@dataclass(frozen=True)
class LogSettings:
    """Settings of the attempt log.

    Raises:
        ValueError: a number is out of range.
    """

    root: Path | None = None
    """Folder that contains `browser-automation/`; None for the value of `CLAW_LOG_DIR`, else `runs`."""
    screenshot_every: int = 1
    """Interval of kept screenshots, in attempts; failures always keep theirs. 0 for no screenshots at all."""
    snapshot_every: int = 1
    """Interval of kept trees and DOMs, in failures; 0 for none."""
    keep_days: float = 30.0
    """Days after which a run is deleted when a new run begins. The default keeps a month of runs for comparison."""
    quota_mb: float = 2048.0
    """Maximum size of `browser-automation/` in MB; the oldest finished runs are deleted first. The default holds about
    4,000 failures of half a megabyte each."""

    def __post_init__(self) -> None:
        for name in ("screenshot_every", "snapshot_every"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be a non-negative integer, not {getattr(self, name)!r}.")
        for name in ("keep_days", "quota_mb"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be a number above 0, not {getattr(self, name)!r}.")

    @property
    def folder(self) -> Path:
        """The log folder, which contains one folder per day."""
        return Path(self.root or os.environ.get(VARIABLE) or "runs") / FOLDER
