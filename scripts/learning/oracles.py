"""Episodes that the oracles play to be learned from: in the format that a person's recordings have."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from selfsurf.agents.scripted import OracleAgent
from selfsurf.sdft.rollouts import Job, Result, Rollouts


def record(
    rollouts: Rollouts, jobs: Sequence[Job], folder: Path, progress: Callable[[int], None] | None = None
) -> list[Result]:
    """Let the oracles play episodes into a folder, in place of what an interrupted start left there."""
    shutil.rmtree(folder, ignore_errors=True)
    return rollouts.run(OracleAgent(), jobs, folder=folder, progress=progress)
