"""Deletes old runs of the attempt log: those past their days, and the oldest finished ones above the quota."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

_RUNNING = 24 * 3600.0
"""Seconds since its last change within which a run without a summary counts as running."""


@dataclass(frozen=True)
class Pruned:
    """What was deleted, and what is left."""

    runs: int
    left_bytes: int


def prune(folder: Path, keep_days: float, quota_bytes: float, spare: Path | None = None) -> Pruned:
    """Delete what is too old or too much.

    Args:
        folder: has a folder a day with a folder a run.
        keep_days: a run's days since its last line.
        quota_bytes: of all runs together. Runs that go on are not deleted, so more may be left.
        spare: a run that is not deleted either.
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
            os.replace(run, gone)  # whole or not at all for a reader, and once only for two processes
        except OSError:
            continue
        shutil.rmtree(gone, ignore_errors=True)
        deleted, total = deleted + 1, total - size
        with contextlib.suppress(OSError):
            run.parent.rmdir()
    return Pruned(deleted, total)


def _changed_and_size(run: Path) -> tuple[float, int]:
    changed, size = 0.0, 0
    for place, _, names in os.walk(run):
        for name in names:
            with contextlib.suppress(OSError):
                found = os.stat(os.path.join(place, name))
                changed, size = max(changed, found.st_mtime), size + found.st_size
    return changed or run.stat().st_mtime, size
