"""Where attempts are logged, how much of the page is kept, and for how long."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "CLAW_LOG_DIR"
"""Environment variable that names the root where no setting does."""

FOLDER = "browser-automation"
"""Below the root."""


@dataclass(frozen=True)
class LogSettings:
    """How attempts are logged.

    Raises:
        ValueError: a number can't be.
    """

    root: Path | None = None
    """Folder in which `browser-automation/` lies; by default what `CLAW_LOG_DIR` names, else `runs`."""
    screenshot_every: int = 1
    """Keep the screenshot of every so many-th attempt, and of every one that failed; 0 keeps none."""
    snapshot_every: int = 1
    """Keep tree and DOM of every so many-th failure; 0 keeps none."""
    keep_days: float = 30.0
    """Older runs are deleted when a new one begins. 30 days: a month's runs are there to compare with."""
    quota_mb: float = 2048.0
    """Of all that is below `browser-automation/`: the oldest finished runs are deleted first. About 4,000 failures at
    half a megabyte each."""

    def __post_init__(self) -> None:
        for name in ("screenshot_every", "snapshot_every"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is a whole number from 0 on, not {getattr(self, name)!r}.")
        for name in ("keep_days", "quota_mb"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is a number above 0, not {getattr(self, name)!r}.")

    @property
    def folder(self) -> Path:
        """The folder that has one folder a day."""
        return Path(self.root or os.environ.get(VARIABLE) or "runs") / FOLDER
