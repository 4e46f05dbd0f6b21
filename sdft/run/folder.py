"""The folder of a run: checks that a run may begin or resume there with its settings and recordings."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from selfsurf.agents.adapters.identity import PEFT_WEIGHTS, AdapterError, read_json
from selfsurf.agents.adapters.mlx import MLX_WEIGHTS
from selfsurf.agents.model_files import file_sha256
from selfsurf.browser_env.record.episode import write_atomically
from selfsurf.browser_env.record.lock import FolderLock, something_else
from selfsurf.sdft.processes import is_first
from selfsurf.sdft.rows.stored import fingerprint_of, load_stored
from selfsurf.sdft.run.checkpoint_files import check_whole, checkpoint, last_step, steps_saved
from selfsurf.sdft.run.library import Backend
from selfsurf.sdft.run.start import check_start
from selfsurf.sdft.settings import CHANGEABLE, TrainSettings, from_earlier
from selfsurf.sdft.teacher.recording import fingerprint, load_recordings

log = logging.getLogger(__name__)


class OtherRun(ValueError):
    """A folder contains something other than the run that should begin or resume there. Nothing has been started."""


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Make the folder and lock it against other trainings within this context; a kill releases the lock, too.

    A folder that is still empty at the end is removed.

    Raises:
        FolderInUse: another training holds the lock; a ValueError.
    """
    if not is_first():
        folder.mkdir(parents=True, exist_ok=True)
        yield
        return
    lock = FolderLock(folder)
    try:
        yield
    finally:
        lock.release()
        with contextlib.suppress(OSError):
            folder.rmdir()  # succeeds only if the folder is empty


def resume_step(folder: Path, *, resume: bool) -> int | None:
    """Return the step from which the run in a folder is resumed; None for a new run.

    Raises:
        OtherRun: the folder contains another run and `resume` is off, or something other than a run.
        ValueError: the last checkpoint is damaged.
    """
    last = last_step(folder)
    if last is None and (other := _something_else(folder)):
        raise OtherRun(f"{folder} contains something other than a training run ({other}): choose another folder.")
    if last is not None and resume:
        check_whole(checkpoint(folder / "checkpoints", last), steps_saved(folder / "checkpoints")[:-1])
    if not resume and (last is not None or (folder / "adapter").exists()):
        raise OtherRun(f"{folder} already holds a training run: resume it (--resume), or choose another folder.")
    if resume and last is None:
        log.info("%s holds no checkpoint yet: starting from the beginning.", folder)
    return last


def library_of(folder: Path, last: int) -> Backend:
    """Return the library that wrote a run's checkpoint."""
    return "mlx" if (checkpoint(folder / "checkpoints", last) / MLX_WEIGHTS).exists() else "torch"


def check_own(folder: Path, last: int | None, backend: Backend) -> None:
    """Check that a run is resumed with the library that began it.

    Raises:
        OtherRun: another library began the run.
    """
    if last is not None and (begun := library_of(folder, last)) != backend:
        raise OtherRun(f"{folder} holds a run of {begun}: resume it with --backend {begun}, or choose another folder.")


def _something_else(folder: Path) -> str:
    """Return the name of something in the folder that isn't from a training run; empty if nothing."""
    path = folder / "settings.json"
    if path.exists():
        return "" if _read(path).keys() >= {"tasks", "steps", "lora_rank"} else path.name
    return something_else(folder)


def _read(path: Path) -> dict[str, Any]:
    """Read an object from a JSON file.

    Raises:
        ValueError: the file contains no JSON object.
    """
    try:
        return read_json(path)
    except AdapterError as error:
        raise ValueError(f"{error} Repair the file, or choose another folder.") from None


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return flat settings, with those of rollouts named like `rollouts.workers`."""
    rollouts = {f"rollouts.{name}": value for name, value in settings.get("rollouts", {}).items()}
    return {**{name: value for name, value in settings.items() if name != "rollouts"}, **rollouts}


def settle(settings: TrainSettings, folder: Path, *, begun: bool) -> None:
    """Save a run's settings and sources, or check that a resumed run has the same.

    Raises:
        OtherRun: the settings have changed.
        FileNotFoundError, agents.model_files.ModelError: `start_from` has no adapter, or one that is damaged, of MLX,
        or can't be trained further.
    """
    if not is_first():
        return
    check_start(settings)
    folder.mkdir(parents=True, exist_ok=True)
    path, new = folder / "settings.json", settings.model_dump(mode="json")
    if begun and path.exists():
        old, now = (_flat(each) for each in (from_earlier(_read(path), path), new))
        others = [name for name in now if name not in CHANGEABLE and now[name] != old.get(name, now[name])]
        if others == ["steps"]:
            raise OtherRun(
                f"{folder} holds a run of {old['steps']} steps, which can't become {now['steps']}: its learning rate "
                f"falls to 0 at the last step. Resume with --steps {old['steps']}; to train the adapter further, begin "
                f"another run in another folder with --set start_from={folder / 'adapter'}."
            )
        if others:
            told = ", ".join(f"{name} was {old[name]!r} and is {now[name]!r}" for name in others)
            raise OtherRun(
                f"{folder} holds a run with other settings: {told}. Use the same settings, or another folder."
            )
    _keep_sources(settings, folder, begun=begun)
    write_atomically(path, json.dumps(new, indent=1))


def _keep_sources(settings: TrainSettings, folder: Path, *, begun: bool) -> None:
    """Save the hashes of a run's recordings and of the adapter that it starts from, or check that they match."""
    named = (*settings.demonstrations, *settings.hindsight_episodes)
    now: dict[str, str] = {}
    if settings.offline:
        named, now["recordings"] = (
            settings.episodes,
            fingerprint_of(load_stored(settings.episodes, hindsight=settings.looks_back)),
        )
    elif named:
        now["recordings"] = fingerprint(load_recordings(named))
    if settings.start_from is not None and (weights := settings.start_from / PEFT_WEIGHTS).exists():
        now["start_from"] = file_sha256(weights)
    if not now:
        return
    path = folder / "sources.json"
    before = _read(path) if begun and path.exists() else now
    if before.get("recordings") != now.get("recordings"):
        raise ValueError(
            f"The recorded episodes in {', '.join(named)} have changed since the run in {folder} began: restore them "
            "and move new ones elsewhere, or begin another run in another folder."
        )
    if before.get("start_from") != now.get("start_from"):
        raise ValueError(
            f"The adapter in {settings.start_from} has changed since the run in {folder} began: restore it, or begin "
            "another run in another folder."
        )
    write_atomically(path, json.dumps(now))
