"""Runs a training by another way than SDFT, with the same model, adapter, files, limits and resuming."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformers import PrinterCallback

from agents.adapters.identity import AdapterError, identity, read_json
from agents.policies.transformers import TransformersPolicy
from agents.record import versions
from browser_env.episode import write_atomically
from sdft.adapter import save_adapter, student
from sdft.callbacks import Clock, keepers
from sdft.checkpoint_files import check_whole, checkpoint, last_step, steps_saved
from sdft.contexts.recording import fingerprint, load_recordings
from sdft.images import shows_images
from sdft.loading import load_policy
from sdft.metrics import MetricsLog, Progress
from sdft.practice import practice_of
from sdft.processes import is_first
from sdft.rehearsal import rehearsal_of
from sdft.settings import CHANGEABLE, SDFT_ONLY, TrainSettings
from sdft.teacher import STUDENT, activate

MakeTrainer = Callable[[dict[str, Any]], Any]
"""Makes the trainer from the options that every way shares: model, peft_config, processing_class and callbacks. Where
its time goes is in the trainer's `seconds`."""


def run_training(
    settings: TrainSettings,
    out: str | Path,
    make: MakeTrainer,
    *,
    policy: TransformersPolicy | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Train an adapter with a trainer; arguments, files and what is returned are as with `sdft.train.train`.

    Raises:
        ValueError: `out` holds another run's adapter and `resume` is off, or the run there has other settings; the
            settings, or the model, ask for what only SDFT does.
    """
    for name in SDFT_ONLY:
        if getattr(settings, name):
            raise ValueError(f"{name} is for SDFT only; leave it out here.")
    folder = Path(out)
    checkpoints = folder / "checkpoints"
    last = going_on_from(folder, resume=resume)
    settle(settings, folder, begun=last is not None)
    policy = policy or load_policy(settings)
    if shows_images(policy, settings):
        raise ValueError(
            f"{policy.name} sees screenshots, which SDFT alone shows in training: compare without them, "
            "--set 'vision=\"none\"'."
        )
    base = identity(policy.name, policy.source, policy.model)
    log = MetricsLog(folder / "metrics.jsonl", progress, resumed_at=last)
    clock = Clock(log, settings.minutes)
    callbacks = [clock, log, *keepers(settings, folder, base)]
    rehearsal = rehearsal_of(settings, policy, folder, begun=last is not None)
    learner = student(policy, settings)
    practice = practice_of(settings, policy, learner["model"], folder, begun=last is not None)
    trainer = make({**learner, "processing_class": policy.tokenizer, "callbacks": callbacks})
    trainer.rehearsal, trainer.practice = rehearsal, practice
    trainer.remove_callback(PrinterCallback)
    trainer.seconds.update(log.seconds)
    log.seconds = trainer.seconds
    go_on(trainer, clock, None if last is None else checkpoint(checkpoints, last))
    summary = summary_of(settings, base, trainer, clock, log, last)
    save_adapter(trainer.model, folder / "adapter", summary)
    return {**summary, "adapter": str(folder / "adapter"), "model": trainer.model}


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


def go_on(trainer: Any, clock: Clock, last: Path | None) -> None:
    """Train, from the beginning or from a checkpoint; a run whose time was up before that has ended there."""
    if last is None or not clock.is_up():
        trainer.train(resume_from_checkpoint=None if last is None else str(last))
        return
    trainer._load_from_checkpoint(str(last))
    activate(trainer.model, STUDENT)
    clock.cut_off = int(last.name.removeprefix("checkpoint-")) < trainer.args.max_steps


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


def summary_of(
    settings: TrainSettings, base: dict[str, Any], trainer: Any, clock: Clock, log: MetricsLog, last: int | None
) -> dict[str, Any]:
    """Return what is said beside the adapter of a run that has ended, which went on from step `last`."""
    return {
        **base,
        "settings": settings.model_dump(mode="json"),
        "versions": versions(),
        "steps": max(trainer.state.global_step, last or 0),
        "cut_off": clock.cut_off,
        "seconds": log.all_seconds(1),
    }
