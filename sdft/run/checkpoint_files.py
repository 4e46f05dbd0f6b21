"""Checkpoint folders that are whole or not there: written under another name, then renamed; the old ones removed.

A process can be killed at any moment. What it was writing then is left under `UNFINISHED` and never read. What has
happened to a checkpoint since it was written shows in the hashes that are written with it.
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
from selfsurf.browser_env.record.room import FULL, NoRoom

HASHES = "hashes.json"
"""Name of the file in a checkpoint that holds the SHA-256 of the others."""
UNFINISHED = "unfinished"
"""Name of the folder in which a checkpoint is made, or removed."""
_LEAST_ROOM = 2**20
"""Bytes; what torch's writer leaves when it fails for want of room is less."""
_NAME = re.compile(r"^checkpoint-(\d+)$")


def checkpoint(folder: Path, step: int) -> Path:
    """Return where the checkpoint of a step is, in the folder of a run's checkpoints."""
    return folder / f"checkpoint-{step}"


def steps_saved(folder: Path) -> list[int]:
    """Return the steps of which there are checkpoints, in order."""
    names = (_NAME.match(path.name) for path in folder.iterdir()) if folder.is_dir() else ()
    return sorted(int(name[1]) for name in names if name)


def last_step(run: Path) -> int | None:
    """Return the step that a run is resumed from, by the folder given to `sdft.train`; None: its beginning."""
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
            raise ValueError(f"{path} is damaged: its content is not what was written. {instead}")


def intact_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield a JSON Lines file's entries up to one that a kill cut off: what follows that was written later."""
    for text in path.read_text(encoding="utf8").splitlines() if path.exists() else ():
        try:
            yield json.loads(text)
        except ValueError:
            return


def note_hashes(folder: Path) -> None:
    """Write down the hashes of a checkpoint's files, beside them."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    hashes = {path.relative_to(folder).as_posix(): file_sha256(path) for path in files}
    (folder / HASHES).write_text(json.dumps(hashes, indent=1), encoding="utf8")


def _is_full(folder: Path, error: Exception) -> bool:
    """Is a disk without room why writing failed? safetensors says so and removes its file, torch leaves what it had."""
    told = getattr(error, "errno", None) in FULL or any(f"(os error {number})" in str(error) for number in FULL)
    return told or shutil.disk_usage(folder).free < _LEAST_ROOM


@contextlib.contextmanager
def room_in(folder: Path) -> Iterator[None]:
    """Within this context, a write that fails because the disk of `folder` is full says so.

    Raises:
        OSError: it is.
    """
    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as error:  # torch's and safetensors' writers have their own
        if not _is_full(folder, error):
            raise
        then = "the same command with --resume (resume=True) resumes from the last checkpoint."
        raise NoRoom(folder, then) from error


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
    going = folder.with_name(f".{folder.name}.{UNFINISHED}")  # no name that another could have
    shutil.rmtree(going, ignore_errors=True)
    if folder.exists():
        folder.rename(going)
        shutil.rmtree(going)


def forget_old(folder: Path, keep: int) -> None:
    """Remove all checkpoints but the newest `keep`, and those that these name as the best of their run.

    What a kill left of a removal goes, too.
    """
    for path in folder.glob(f".*.{UNFINISHED}"):
        shutil.rmtree(path)
    steps = steps_saved(folder)
    newest = steps[-keep:]
    kept = {*newest, *(trainer_state(folder, step).get("best_global_step") for step in newest)}
    for step in steps:
        if step not in kept:
            discard(checkpoint(folder, step))
