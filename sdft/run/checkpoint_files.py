"""Atomic checkpoint folders, written under a temporary name and then renamed, and the removal of old ones.

A process can be killed at any moment; a partly written checkpoint is left under `UNFINISHED` and never read. Hashes
stored with a checkpoint reveal later changes.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from selfsurf.agents.model_files import file_sha256
from selfsurf.browser_env.disk import FULL, NoRoom

HASHES = "hashes.json"
"""Name of the file in a checkpoint with the SHA-256 of its other files."""
UNFINISHED = "unfinished"
"""Name of a folder in which a checkpoint is being written or removed."""
_LEAST_ROOM = 2**20
"""Free bytes below which a failed write counts as a full disk; torch's writer leaves less when it runs out of space."""
_NAME = re.compile(r"^checkpoint-(\d+)$")


def checkpoint(folder: Path, step: int) -> Path:
    """Return the path of a step's checkpoint in the folder of a run's checkpoints."""
    return folder / f"checkpoint-{step}"


def steps_saved(folder: Path) -> list[int]:
    """Return the steps that have checkpoints, in order."""
    names = (_NAME.match(path.name) for path in folder.iterdir()) if folder.is_dir() else ()
    return sorted(int(name[1]) for name in names if name)


def last_step(run: Path) -> int | None:
    """Return the step from which the run in a folder would resume; None for its beginning."""
    return max(steps_saved(run / "checkpoints"), default=None)


def trainer_state(folder: Path, step: int) -> dict[str, Any]:
    """Return the trainer state that a checkpoint contains."""
    state: dict[str, Any] = json.loads((checkpoint(folder, step) / "trainer_state.json").read_text(encoding="utf8"))
    return state


def check_whole(folder: Path, before: Sequence[int]) -> None:
    """Check that a checkpoint is intact.

    Args:
        folder: folder of the checkpoint.
        before: steps of the earlier checkpoints.

    Raises:
        ValueError: the checkpoint is damaged.
    """
    instead = f"Remove {folder} to resume from {f'step {max(before)}' if before else 'the beginning'}."
    try:
        known: dict[str, str] = json.loads((folder / HASHES).read_text(encoding="utf8"))
    except (OSError, ValueError):
        raise ValueError(f"{folder / HASHES} is missing or damaged. {instead}") from None
    for name, expected in known.items():
        path = folder / name
        if not path.is_file():
            raise ValueError(f"{path} is missing. {instead}")
        if file_sha256(path) != expected:
            raise ValueError(f"{path} is damaged: its content has changed since it was written. {instead}")


def note_hashes(folder: Path) -> None:
    """Write the hashes of a checkpoint's files beside them."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    hashes = {path.relative_to(folder).as_posix(): file_sha256(path) for path in files}
    (folder / HASHES).write_text(json.dumps(hashes, indent=1), encoding="utf8")


def _is_full(folder: Path, error: Exception) -> bool:
    """Whether a write failed because the disk is full. safetensors reports a full disk; torch leaves a partial file."""
    told = getattr(error, "errno", None) in FULL or any(f"(os error {number})" in str(error) for number in FULL)
    return told or shutil.disk_usage(folder).free < _LEAST_ROOM


@contextlib.contextmanager
def room_in(folder: Path) -> Iterator[None]:
    """Turn a write error within this context into a clear message if the disk of `folder` is full.

    Raises:
        OSError: the disk is full.
    """
    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as error:  # safetensors and torch raise their own errors
        if not _is_full(folder, error):
            raise
        then = "run the same command with --resume (in Python resume=True) to continue from the last checkpoint."
        raise NoRoom(folder, then) from error


def publish(made: Path, target: Path) -> None:
    """Sync a finished folder to disk and rename it to `target`, replacing a folder of that name."""
    for path in [*made.rglob("*"), made]:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    discard(target)
    made.rename(target)


def discard(folder: Path) -> None:
    """Remove a folder if it exists. A kill leaves either all of it or nothing under its name."""
    going = folder.with_name(f".{folder.name}.{UNFINISHED}")  # a name that no other folder has
    shutil.rmtree(going, ignore_errors=True)
    if folder.exists():
        folder.rename(going)
        shutil.rmtree(going)


def forget_old(folder: Path, keep: int) -> None:
    """Remove all checkpoints except the newest `keep` and the best checkpoints that they name.

    Remains of removals that a kill interrupted are removed, too.
    """
    for path in folder.glob(f".*.{UNFINISHED}"):
        shutil.rmtree(path)
    steps = steps_saved(folder)
    newest = steps[-keep:]
    kept = {*newest, *(trainer_state(folder, step).get("best_global_step") for step in newest)}
    for step in steps:
        if step not in kept:
            discard(checkpoint(folder, step))
