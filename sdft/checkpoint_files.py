"""Checkpoint folders that are whole or not there: written under another name, then renamed; the old ones removed.

A process can be killed at any moment. What it was writing then is left under `UNFINISHED` and never read.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

UNFINISHED = "unfinished"
"""Name of the folder in which a checkpoint is made, or removed."""
_NAME = re.compile(r"^checkpoint-(\d+)$")


def checkpoint(folder: Path, step: int) -> Path:
    """Return where the checkpoint of a step is, in the folder of a run's checkpoints."""
    return folder / f"checkpoint-{step}"


def steps_saved(folder: Path) -> list[int]:
    """Return the steps of which there are checkpoints, in order."""
    names = (_NAME.match(path.name) for path in folder.iterdir()) if folder.is_dir() else ()
    return sorted(int(name[1]) for name in names if name)


def last_step(run: Path) -> int | None:
    """Return the step after which a run goes on, by the folder given to `sdft.train.train`; None: from its start."""
    return max(steps_saved(run / "checkpoints"), default=None)


def trainer_state(folder: Path, step: int) -> dict[str, Any]:
    """Return what the trainer said of itself in a checkpoint."""
    state: dict[str, Any] = json.loads((checkpoint(folder, step) / "trainer_state.json").read_text(encoding="utf8"))
    return state


def check_whole(folder: Path, before: Sequence[int]) -> None:
    """Make sure that a checkpoint can be read.

    Args:
        folder: of the checkpoint.
        before: the steps of which there are earlier ones.

    Raises:
        ValueError: it is damaged.
    """
    for path in sorted(folder.rglob("*")):
        try:
            if path.suffix == ".safetensors":
                with safe_open(path, framework="numpy"):
                    pass
            elif path.suffix == ".json":
                json.loads(path.read_text(encoding="utf8"))
            elif path.suffix in (".pt", ".pth") and not zipfile.is_zipfile(path):
                raise ValueError("its end is missing")
        except (ValueError, SafetensorError, OSError) as error:
            instead = f"step {max(before)}" if before else "the beginning"
            raise ValueError(f"{path} is damaged ({error}). Remove {folder} to go on from {instead}.") from None


def publish(made: Path, target: Path) -> None:
    """Give a folder that is complete its name, all its content being on the disk; one that has the name goes."""
    for path in [*made.rglob("*"), made]:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    discard(target)
    made.rename(target)


def discard(folder: Path) -> None:
    """Remove a folder, if it is there. A kill leaves the whole of it, or none under its name."""
    going = folder.with_name(f"{UNFINISHED}-{folder.name}")
    shutil.rmtree(going, ignore_errors=True)
    if folder.exists():
        folder.rename(going)
        shutil.rmtree(going)


def forget_old(folder: Path, keep: int) -> None:
    """Remove all checkpoints but the newest `keep`, and those that these name as the best of their run.

    What a kill left of a removal goes, too.
    """
    for path in folder.glob(f"{UNFINISHED}-*"):
        shutil.rmtree(path)
    steps = steps_saved(folder)
    newest = steps[-keep:]
    kept = {*newest, *(trainer_state(folder, step).get("best_global_step") for step in newest)}
    for step in steps:
        if step not in kept:
            discard(checkpoint(folder, step))
