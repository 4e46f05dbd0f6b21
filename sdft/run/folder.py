"""The folder of a run: whether one may begin or be resumed there, and by what settings and recordings."""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from selfsurf.agents.adapters.identity import PEFT_WEIGHTS, AdapterError, check_folder, read_json
from selfsurf.agents.models import file_sha256
from selfsurf.browser_env.record.episode import write_atomically
from selfsurf.sdft.run.checkpoint_files import check_whole, checkpoint, last_step, steps_saved
from selfsurf.sdft.run.processes import is_first
from selfsurf.sdft.settings import CHANGEABLE, TrainSettings, from_earlier
from selfsurf.sdft.teacher.recording import fingerprint, load_recordings

log = logging.getLogger(__name__)


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Make the folder, and have no other training in it within this context; a kill ends that, too.

    A folder in which nothing was written is gone in the end.

    Raises:
        ValueError: there is one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not is_first():
        yield
        return
    here = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(here, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"Another training is under way in {folder}: wait, or choose another folder.") from None
        yield
    finally:
        os.close(here)
        with contextlib.suppress(OSError):
            folder.rmdir()  # if nothing came of it


def resume_step(folder: Path, *, resume: bool) -> int | None:
    """Return the step from which the run in a folder is resumed; None: it begins.

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
    if resume and last is None:
        log.info("%s holds no checkpoint yet: starting from the beginning.", folder)
    return last


_NOTES = (".log", ".txt", ".out", ".err")
"""Files that may be in a run's folder before it begins, such as what is written of its output."""


def _something_else(folder: Path) -> str:
    """Name what is in a folder that no training run has put there; empty if there is nothing."""
    path = folder / "settings.json"
    if path.exists():
        return "" if _read(path).keys() >= {"tasks", "steps", "lora_rank"} else path.name
    others = (path.name for path in folder.iterdir() if not path.name.startswith(".") and path.suffix not in _NOTES)
    return min(others, default="")


def _read(path: Path) -> dict[str, Any]:
    """Read an object from a JSON file.

    Raises:
        ValueError: it holds none.
    """
    try:
        return read_json(path)
    except AdapterError as error:
        raise ValueError(f"{error} Put it right, or choose another folder.") from None


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with those of rollouts as `rollouts.workers` and so on."""
    rollouts = {f"rollouts.{name}": value for name, value in settings.get("rollouts", {}).items()}
    return {**{name: value for name, value in settings.items() if name != "rollouts"}, **rollouts}


def settle(settings: TrainSettings, folder: Path, *, begun: bool) -> None:
    """Save what a run learns by: its settings, and what it reads. A run is resumed with the same.

    Raises:
        ValueError: they are others.
        FileNotFoundError, agents.models.ModelError: there is no adapter in `start_from`, or a damaged one.
    """
    if not is_first():
        return
    check_folder(settings.start_from)
    folder.mkdir(parents=True, exist_ok=True)
    path, new = folder / "settings.json", settings.model_dump(mode="json")
    if begun and path.exists():
        old, now = (_flat(each) for each in (from_earlier(_read(path), path), new))
        others = [name for name in now if name not in CHANGEABLE and now[name] != old.get(name, now[name])]
        if others:
            told = ", ".join(f"{name} was {old[name]!r} and is {now[name]!r}" for name in others)
            raise ValueError(f"{folder} holds a run with other settings: {told}. Use the same, or another folder.")
    _keep_sources(settings, folder, begun=begun)
    write_atomically(path, json.dumps(new, indent=1))


def _keep_sources(settings: TrainSettings, folder: Path, *, begun: bool) -> None:
    """Note what recordings and which adapter a run begins with."""
    named = (*settings.demonstrations, *settings.hindsight_episodes)
    now: dict[str, str] = {}
    if named:
        now["recordings"] = fingerprint(load_recordings(named))
    if settings.start_from is not None and (weights := settings.start_from / PEFT_WEIGHTS).exists():
        now["start_from"] = file_sha256(weights)
    if not now:
        return
    path = folder / "sources.json"
    before = _read(path) if begun and path.exists() else now
    if before.get("recordings") != now.get("recordings"):
        raise ValueError(
            f"The recorded episodes in {', '.join(named)} are others than when the run in {folder} began: put them "
            "back (one that has come since belongs elsewhere), or begin another run in another folder."
        )
    if before.get("start_from") != now.get("start_from"):
        raise ValueError(
            f"The adapter in {settings.start_from} is another than when the run in {folder} began: put it back, or "
            "begin another run in another folder."
        )
    write_atomically(path, json.dumps(now))
