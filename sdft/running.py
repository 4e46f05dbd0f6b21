"""Runs a training by another way than SDFT, with the same model, adapter, files, limits and resuming."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformers import PrinterCallback

from agents.adapters.identity import identity
from agents.policies.transformers import TransformersPolicy
from agents.record import versions
from sdft.adapter import save_adapter, student
from sdft.callbacks import Clock, keepers
from sdft.checkpoint_files import checkpoint, last_step
from sdft.loading import load_policy
from sdft.metrics import MetricsLog, Progress
from sdft.settings import TrainSettings

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
        ValueError: `out` holds another run's adapter and `resume` is off.
    """
    folder = Path(out)
    checkpoints = folder / "checkpoints"
    last = last_step(folder)
    if not resume and (last is not None or (folder / "adapter").exists()):
        raise ValueError(f"{folder} already holds a training run; go on with it (--resume) or choose another folder.")
    folder.mkdir(parents=True, exist_ok=True)
    policy = policy or load_policy(settings)
    base = identity(policy.name, policy.source, policy.model)
    log = MetricsLog(folder / "metrics.jsonl", progress, resumed_at=last)
    clock = Clock(folder / "metrics.jsonl", settings.minutes)
    callbacks = [clock, log, *keepers(settings, folder, base)]
    trainer = make({**student(policy, settings), "processing_class": policy.tokenizer, "callbacks": callbacks})
    trainer.remove_callback(PrinterCallback)
    trainer.seconds.update(log.seconds)
    log.seconds = trainer.seconds
    trainer.train(resume_from_checkpoint=None if last is None else str(checkpoint(checkpoints, last)))
    summary: dict[str, Any] = {
        **base,
        "settings": settings.model_dump(mode="json"),
        "versions": versions(),
        "steps": trainer.state.global_step,
        "cut_off": clock.cut_off,
        "seconds": log.all_seconds(1),
    }
    save_adapter(trainer.model, folder / "adapter", summary)
    return {**summary, "adapter": str(folder / "adapter"), "model": trainer.model}
