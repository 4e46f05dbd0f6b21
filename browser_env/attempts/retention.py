"""Deletion of old runs of the attempt log: expired runs, and the oldest finished runs above the quota."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

_RUNNING = 24 * 3600.0
"""Seconds since its last change during which a run without a summary still counts as running."""


@dataclass(frozen=True)
class CleanupResult:
    """Result of a cleanup: number of deleted runs, and bytes left."""

    runs: int
    left_bytes: int


def prune(folder: Path, keep_days: float, quota_bytes: float, spare: Path | None = None) -> CleanupResult:
    """Delete runs that have expired, and the oldest ones above the quota.

    Args:
        folder: log folder with one folder per day, each with one folder per run.
        keep_days: days to keep a run after its last change.
        quota_bytes: maximum size of all runs together. Running runs are not deleted, so more may be left.
        spare: a run that is never deleted.
    """
    now, deleted = time.time(), 0
    runs = [(*_changed_and_size(run), run) for run in folder.glob("????-??-??/*") if run.is_dir()]
    total = sum(size for _, size, _ in runs)
    for changed, size, run in sorted(runs, key=lambda one: one[0]):
        finished = (run / "summary.json").exists() or now - changed > _RUNNING
        if run == spare or not finished or (now - changed <= keep_days * 86400 and total <= quota_bytes):
            continue
        gone = run.with_name(f".deleting-{run.name}")
        try:
            os.replace(run, gone)  # atomic for readers, and only one of two processes succeeds
        except OSError:
            continue
        shutil.rmtree(gone, ignore_errors=True)
        deleted, total = deleted + 1, total - size
        with contextlib.suppress(OSError):
            run.parent.rmdir()
    return CleanupResult(deleted, total)


def _changed_and_size(run: Path) -> tuple[float, int]:
    changed, size = 0.0, 0
    for place, _, names in os.walk(run):
        for name in names:
            with contextlib.suppress(OSError):
                found = os.stat(os.path.join(place, name))
                changed, size = max(changed, found.st_mtime), size + found.st_size
    return changed or run.stat().st_mtime, size
