"""Recording of the oracles' episodes as training data, in the format of a person's recordings."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from selfsurf.agents.scripted import OracleAgent
from selfsurf.sdft.rollouts import Job, Result, Rollouts


def record(
    rollouts: Rollouts, jobs: Sequence[Job], folder: Path, progress: Callable[[int], None] | None = None
) -> list[Result]:
    """Let the oracles play episodes into a folder, which is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    return rollouts.run(OracleAgent(), jobs, folder=folder, progress=progress)
