"""Runs a training by another way than SDFT, with the same model, adapter, files, limits and resuming."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformers import PrinterCallback
from transformers.trainer_utils import get_last_checkpoint

from agents.adapters.identity import identity
from agents.policies.transformers import TransformersPolicy
from agents.record import versions
from sdft.adapter import save_adapter, student
from sdft.callbacks import Clock, keepers
from sdft.loading import load_policy
from sdft.settings import TrainSettings
from sdft.train import Log, Progress, step_of

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
    last = get_last_checkpoint(str(checkpoints)) if checkpoints.is_dir() else None
    if not resume and (last or (folder / "adapter").exists()):
        raise ValueError(f"{folder} already holds a training run; go on with it (--resume) or choose another folder.")
    folder.mkdir(parents=True, exist_ok=True)
    policy = policy or load_policy(settings)
    base = identity(policy.name, policy.source, policy.model)
    log = Log(folder / "metrics.jsonl", progress, resumed_at=step_of(last))
    clock = Clock(folder / "metrics.jsonl", settings.minutes)
    callbacks = [clock, log, *keepers(settings, folder, base)]
    trainer = make({**student(policy, settings), "processing_class": policy.tokenizer, "callbacks": callbacks})
    trainer.remove_callback(PrinterCallback)
    log.seconds = trainer.seconds
    trainer.train(resume_from_checkpoint=last if resume else None)
    summary: dict[str, Any] = {
        **base,
        "settings": settings.model_dump(mode="json"),
        "versions": versions(),
        "steps": trainer.state.global_step,
        "cut_off": clock.cut_off,
        "seconds": {"total": round(clock.elapsed(), 1), **{k: round(v, 1) for k, v in trainer.seconds.items()}},
    }
    save_adapter(trainer.model, folder / "adapter", summary)
    return {**summary, "adapter": str(folder / "adapter"), "model": trainer.model}
