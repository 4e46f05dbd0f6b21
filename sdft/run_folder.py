"""What is in the folder of a training: whether a run may begin or go on there, by what settings and recordings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agents.adapters.identity import AdapterError, read_json
from browser_env.episode import write_atomically
from sdft.checkpoint_files import check_whole, checkpoint, last_step, steps_saved
from sdft.contexts.recording import fingerprint, load_recordings
from sdft.processes import is_first
from sdft.settings import CHANGEABLE, TrainSettings


def going_on_from(folder: Path, *, resume: bool) -> int | None:
    """Return the step after which the run in a folder goes on; None: from its start.

    Raises:
        ValueError: the folder holds another run, and `resume` is off; it holds what is no run; the last checkpoint is
            damaged.
    """
    last = last_step(folder)
    if last is None and (other := _something_else(folder)):
        raise ValueError(f"{folder} holds something else ({other}); choose another folder.")
    if last is not None and resume:
        check_whole(checkpoint(folder / "checkpoints", last), steps_saved(folder / "checkpoints")[:-1])
    if not resume and (last is not None or (folder / "adapter").exists()):
        raise ValueError(f"{folder} already holds a training run; go on with it (--resume) or choose another folder.")
    return last


def _something_else(folder: Path) -> str:
    """Name what is in a folder that no training run has put there; empty if there is nothing."""
    for name in ("episode.json", "stages", "report.json"):
        if (folder / name).exists():
            return name
    path = folder / "settings.json"
    return path.name if path.exists() and not _read(path).keys() >= {"tasks", "steps", "lora_rank"} else ""


def _read(path: Path) -> dict[str, Any]:
    """Read an object from a JSON file.

    Raises:
        ValueError: it holds none.
    """
    try:
        return read_json(path)
    except AdapterError as error:
        raise ValueError(f"{error} Put it right, or choose another folder.") from None


def settle(settings: TrainSettings, folder: Path, *, begun: bool) -> None:
    """Write the settings into the run's folder; a run that has begun must be gone on with by the same.

    Raises:
        ValueError: they are others.
    """
    if not is_first():
        return
    folder.mkdir(parents=True, exist_ok=True)
    path, new = folder / "settings.json", settings.model_dump(mode="json")
    if begun and path.exists():
        old = _read(path)
        others = [name for name in new if name not in CHANGEABLE and new[name] != old.get(name, new[name])]
        if others:
            told = ", ".join(f"{name} was {old[name]!r} and is {new[name]!r}" for name in others)
            raise ValueError(f"{folder} holds a run with other settings: {told}. Use the same, or another folder.")
    write_atomically(path, json.dumps(new, indent=1))


def keep_recordings(settings: TrainSettings, folder: Path, *, begun: bool) -> None:
    """Note what episodes a run learns from; one that has begun must be gone on with by the same.

    Raises:
        ValueError: they are others.
    """
    named = (*settings.demonstrations, *settings.hindsight_episodes)
    if not named or not is_first():
        return
    path, now = folder / "recordings.json", {"sha256": fingerprint(load_recordings(named))}
    if begun and path.exists() and _read(path) != now:
        raise ValueError(
            f"The recorded episodes in {', '.join(named)} are others than when the run in {folder} began: put them "
            "back (one that has come since belongs elsewhere), or begin another run in another folder."
        )
    write_atomically(path, json.dumps(now))
