"""What every way to train has in common: model, adapter, what is kept in mind, files, limits, resuming."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import PrinterCallback, TrainerCallback

from selfsurf.agents.adapters.identity import identity
from selfsurf.agents.play.record import versions
from selfsurf.agents.policies.transformers.policy import TransformersPolicy
from selfsurf.sdft.loss.practice import Practice, practice_of, tasks_before
from selfsurf.sdft.loss.rehearsal import Rehearsal, rehearsal_of
from selfsurf.sdft.rows.images import shows_images
from selfsurf.sdft.rows.jobs import trained_tasks
from selfsurf.sdft.run.adapter import save_adapter, student
from selfsurf.sdft.run.callbacks import Clock, keepers
from selfsurf.sdft.run.checkpoint_files import checkpoint
from selfsurf.sdft.run.loading import load_policy
from selfsurf.sdft.run.metrics import MetricsLog, Progress, check_reporters, reporting
from selfsurf.sdft.run.run_folder import alone_in, going_on_from, settle
from selfsurf.sdft.settings import SDFT_ONLY, TrainSettings
from selfsurf.sdft.teacher.weights import STUDENT, activate

_log = logging.getLogger(__name__)


@dataclass
class Run:
    """A training that begins or goes on."""

    settings: TrainSettings
    folder: Path
    last: int | None
    """Step of the checkpoint that it goes on from; None: it begins."""
    policy: TransformersPolicy
    base: dict[str, Any]
    """Which model was not trained yet (`agents.adapters.identity`)."""
    learned: list[str]
    """The tasks that it will have learned in the end, those of the adapter that it began with included."""
    learner: dict[str, Any]
    """The trainer's `model` and `peft_config`."""
    log: MetricsLog
    clock: Clock
    rehearsal: Rehearsal | None
    practice: Practice | None

    @property
    def callbacks(self) -> list[TrainerCallback]:
        """What goes along with the training."""
        return [self.clock, self.log, *keepers(self.settings, self.folder, self.about)]

    @property
    def about(self) -> dict[str, Any]:
        """What is said beside every adapter of the run."""
        settings = self.settings.model_dump(mode="json")
        return {**self.base, "learned": self.learned, "settings": settings, "versions": versions()}

    def take(self, trainer: Any) -> None:
        """Give a trainer what is kept in mind, and count its time on from that of earlier starts."""
        trainer.rehearsal, trainer.practice = self.rehearsal, self.practice
        trainer.remove_callback(PrinterCallback)
        trainer.seconds.update(self.log.seconds)
        self.log.seconds = trainer.seconds

    def go_on(self, trainer: Any) -> None:
        """Train, from the beginning or from the checkpoint; a run whose time was up before that has ended there."""
        self.log.prepared()
        if self.last is None:
            trainer.train()
            return
        last = checkpoint(self.folder / "checkpoints", self.last)
        if not self.clock.is_up():
            trainer.train(resume_from_checkpoint=str(last))
            return
        trainer._load_from_checkpoint(str(last))
        activate(trainer.model, STUDENT)
        self.clock.cut_off = self.last < trainer.args.max_steps

    def summary(self, trainer: Any) -> dict[str, Any]:
        """Return what is said beside the adapter of a run that has ended."""
        return {
            **self.about,
            "steps": max(trainer.state.global_step, self.last or 0),
            "cut_off": self.clock.cut_off,
            "seconds": self.log.all_seconds(1),
        }


MakeTrainer = Callable[[Run, dict[str, Any]], Any]
"""Makes the trainer of a run from the options that every way shares: model, peft_config, processing_class and
callbacks. Where its time goes is in the trainer's `seconds`."""


def prepare(
    settings: TrainSettings, folder: Path, policy: TransformersPolicy, last: int | None, progress: Progress | None
) -> Run:
    """Make everything ready for a run in a folder that may hold it, from step `last` on if that is given."""
    if last is not None:
        _log.info("Going on from step %d of %d, by the last checkpoint in %s.", last, settings.steps, folder)
    base = identity(policy.name, policy.source, policy.model)
    log = MetricsLog(folder / "metrics.jsonl", progress, resumed_at=last)
    clock = Clock(log, settings.minutes)
    rehearsal = rehearsal_of(settings, policy, folder, begun=last is not None)
    learner = student(policy, settings)
    practice = practice_of(settings, policy, learner["model"], folder, begun=last is not None)
    learned = [*tasks_before(settings), *trained_tasks(settings)]
    return Run(settings, folder, last, policy, base, learned, learner, log, clock, rehearsal, practice)


def run_training(
    settings: TrainSettings,
    out: str | Path,
    make: MakeTrainer,
    *,
    policy: TransformersPolicy | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Train an adapter by another way than SDFT; arguments, files and what is returned are as with `sdft.train.train`.

    Raises:
        ValueError: `out` holds another run's adapter and `resume` is off, or the run there has other settings; the
            settings, or the model, ask for what only SDFT does.
    """
    for name in SDFT_ONLY:
        if getattr(settings, name):
            raise ValueError(f"{name} is for SDFT only; leave it out here.")
    check_reporters(settings.report_to)
    with alone_in(Path(out)):
        return _run_training(settings, Path(out), make, policy, resume=resume, progress=progress)


def _run_training(
    settings: TrainSettings,
    folder: Path,
    make: MakeTrainer,
    policy: TransformersPolicy | None,
    *,
    resume: bool,
    progress: Progress | None,
) -> dict[str, Any]:
    last = going_on_from(folder, resume=resume)
    settle(settings, folder, begun=last is not None)
    policy = policy or load_policy(settings)
    if shows_images(policy, settings):
        raise ValueError(
            f"{policy.name} sees screenshots, which SDFT alone shows in training: compare without them, "
            "--set 'vision=\"none\"'."
        )
    run = prepare(settings, folder, policy, last, progress)
    with reporting(settings.report_to, folder / "logs"):
        trainer = make(run, {**run.learner, "processing_class": policy.tokenizer, "callbacks": run.callbacks})
        run.take(trainer)
        run.go_on(trainer)
    summary = run.summary(trainer)
    save_adapter(trainer.model, folder / "adapter", summary)
    return {**summary, "adapter": str(folder / "adapter"), "model": trainer.model}
