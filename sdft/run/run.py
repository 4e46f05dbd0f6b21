"""A training run from its folder to its adapter, shared by all trainers: files, model, limits, resuming."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

from transformers import TrainerCallback

from selfsurf.agents.adapters.identity import identity
from selfsurf.agents.adapters.prompt import PROMPT
from selfsurf.agents.play.provenance import versions
from selfsurf.sdft.agent import prompt_of
from selfsurf.sdft.forgetting.practice import tasks_before
from selfsurf.sdft.measure.agreement import Agreement
from selfsurf.sdft.processes import check_resumable
from selfsurf.sdft.rows.images import shows_images
from selfsurf.sdft.rows.jobs import trained_tasks
from selfsurf.sdft.run.checkpoint_files import checkpoint
from selfsurf.sdft.run.checkpoints import CheckpointManager
from selfsurf.sdft.run.folder import alone_in, resume_step, settle
from selfsurf.sdft.run.interruption import InterruptibleSteps
from selfsurf.sdft.run.learning import Learning
from selfsurf.sdft.run.library import Library, torch_library
from selfsurf.sdft.run.memory import ReturnFreed
from selfsurf.sdft.run.metrics import MetricsLog, Progress
from selfsurf.sdft.run.reporters import check_reporters, reporting
from selfsurf.sdft.run.start import shape_of
from selfsurf.sdft.settings import TrainSettings, sdft_only
from selfsurf.sdft.teacher.weights import STUDENT

_log = logging.getLogger(__name__)


class Clock(TrainerCallback):
    """Callback that stops training at its time limit.

    Args:
        log: metrics log with the wall-clock time of all starts of the run.
        minutes: time limit of the run in minutes; None for no limit.
    """

    def __init__(self, log: MetricsLog, minutes: float | None) -> None:
        self.log = log
        self.minutes = minutes
        self.cut_off = False
        """Whether the time limit was reached before the last step."""

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Stop if the time limit is reached."""
        if state.global_step < state.max_steps and self.is_up():
            control.should_training_stop = control.should_save = True
            self.cut_off = True

    def is_up(self) -> bool:
        """Whether the run has reached its time limit."""
        return self.minutes is not None and self.log.all_seconds(2)["total"] >= 60 * self.minutes


class Snapshots(TrainerCallback):
    """Callback that keeps the adapter every `every` optimizer steps, as `step-N` in a folder.

    Args:
        folder: folder of the snapshots.
        every: optimizer steps between snapshots.
        about: metadata written beside each adapter.
        save: function that writes an adapter. Every process calls it; only the first writes.
    """

    def __init__(self, folder: Path, every: int, about: dict[str, Any], save: Callable[..., Any]) -> None:
        self.folder = folder
        self.every = every
        self.about = about
        self.save = save

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Save a snapshot at the set interval."""
        if state.global_step % self.every == 0:
            about = {**self.about, "steps": state.global_step}
            self.save(kwargs["model"], self.folder / f"step-{state.global_step}", about)


@dataclass
class Run:
    """A training that begins or is resumed."""

    settings: TrainSettings
    folder: Path
    last: int | None
    """Step of the checkpoint from which the run is resumed; None for a new run."""
    library: Library
    """Learning library."""
    policy: Any
    """Policy of the model: a `TransformersPolicy`, or that of another library."""
    base: dict[str, Any]
    """Identity of the untrained base model (`agents.adapters.identity`)."""
    learned: list[str]
    """Tasks learned by the end of the run, including those of the adapter that it starts from."""
    learner: dict[str, Any]
    """Arguments `model` and `peft_config` of the trainer."""
    log: MetricsLog
    clock: Clock
    rehearsal: Any
    practice: Any
    learning: Learning
    steps: InterruptibleSteps = field(default_factory=InterruptibleSteps)
    """Callback that limits interrupts to resumable states."""
    manager: CheckpointManager | None = None
    """Callback that evaluates the run and keeps its best state; None without evaluations."""
    agreement: Agreement | None = None
    """Agreement with the recordings, measured at the end of the run."""

    @property
    def lora(self) -> Any:
        """The adapter's configuration."""
        return self.learner["peft_config"] or self.learner["model"].peft_config[STUDENT]

    @property
    def callbacks(self) -> list[TrainerCallback]:
        """Callbacks of the trainer."""
        every = self.settings.snapshot_every
        kept = [Snapshots(self.folder / "snapshots", every, self.about, self.library.save)] if every else []
        return [self.steps, self.clock, self.log, self.learning, ReturnFreed(), *kept]

    @property
    def given(self) -> dict[str, Any]:
        """Arguments that all trainers share (`sdft.trainers.base.RunTrainer`)."""
        about = {"settings": self.settings, "checkpoints": self.folder / "checkpoints", "callbacks": self.callbacks}
        return {**about, **self.learner}

    @property
    def about(self) -> dict[str, Any]:
        """Metadata saved beside every adapter of the run."""
        settings, prompt = self.settings.model_dump(mode="json"), prompt_of(self.settings).model_dump(mode="json")
        return {**self.base, "learned": self.learned, PROMPT: prompt, "settings": settings, "versions": versions()}

    def train(self, trainer: Any) -> None:
        """Train from the beginning or from the checkpoint, unless the run has ended there or used up its time."""
        trainer.rehearsal, trainer.practice, trainer.about = self.rehearsal, self.practice, self.about
        trainer.seconds.update(self.log.seconds)  # seconds of earlier starts
        self.log.seconds = trainer.seconds
        self.log.prepared()
        if self.manager is None or not self.manager.stopped:
            with self.steps.kept(trainer):
                self._train(trainer)
        if self.manager is not None:
            self.manager.restore_best()

    def _train(self, trainer: Any) -> None:
        if self.last is None:
            trainer.train()
            return
        check_resumable(trainer)
        last = checkpoint(self.folder / "checkpoints", self.last)
        ended = self.last >= self.settings.steps  # with fewer rows than steps, transformers would start another epoch
        if not (ended or self.clock.is_up()):
            trainer.train(resume_from_checkpoint=str(last))
            return
        trainer.put_back(self.last)
        self.clock.cut_off = not ended

    def summary(self, trainer: Any) -> dict[str, Any]:
        """Return the metadata saved beside the adapter of a finished run."""
        return {
            **self.about,
            "steps": max(trainer.state.global_step, self.last or 0),
            "cut_off": self.clock.cut_off,
            "seconds": self.log.all_seconds(1),
            "learning": self.learning.figures(),
            **({} if self.learning.distilled is None else {"distilled": self.learning.distilled}),
            **({} if self.manager is None else {"evaluation": self.manager.summary()}),
            **({} if self.agreement is None else {"recorded": self.agreement.model_dump()}),
        }


class TrainOptions(TypedDict, total=False):
    """Options of all training functions besides settings and folder, as in `sdft.train`."""

    policy: Any
    """Loaded model to train; None to load `settings.model`. PEFT wraps it in place."""
    resume: bool
    """Whether to continue from the last checkpoint in the folder, if one exists."""
    progress: Progress | None
    """Function called after every optimizer step with its number and metrics."""


MakeTrainer = Callable[[Run], AbstractContextManager[Any]]
"""Function that makes a run's trainer (`sdft.trainers.base.RunTrainer`), with its resources open within the context."""

Check = Callable[[Path, int | None], MakeTrainer]
"""Function that checks, before anything is written or loaded, whether a run can begin in a folder or resume from a
step."""


def run_training(
    settings: TrainSettings,
    out: str | Path,
    check: Check,
    *,
    library: Library | None = None,
    policy: Any = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Train an adapter. Arguments, files and the return value are those of `sdft.train`.

    `check` chooses the trainer; `library` is the learning library, torch by default.
    """
    folder, library = Path(out), library or torch_library()
    with alone_in(folder):
        last = resume_step(folder, resume=resume)
        check_reporters(settings.report_to)
        make = check(folder, last)
        settle(settings, folder, begun=last is not None)
        policy = policy or library.load(settings)
        settings = settings.model_copy(update=shape_of(settings.start_from))
        run = _prepare(settings, folder, library, policy, last, progress)
        with reporting(settings.report_to, folder / "logs"), make(run) as trainer:
            run.train(trainer)
        summary = run.summary(trainer)
        library.finish(trainer, folder / "adapter", summary)
        return {**summary, "adapter": str(folder / "adapter"), "model": trainer.model}


def refuse_sdft_only(settings: TrainSettings, *, workers: bool = False) -> None:
    """Refuse settings that only SDFT supports; with `workers`, `rollouts.workers` is allowed.

    Raises:
        ValueError: such settings are given.
    """
    if only := [name for name in sdft_only(settings) if not (workers and name == "rollouts.workers")]:
        whose = "SDFT and GRPO" if only == ["rollouts.workers"] else "SDFT"
        raise ValueError(f"{', '.join(only)} works with {whose} only: leave it out.")


def refuse_images(run: Run) -> None:
    """Refuse a model that would get screenshots, which only SDFT supports in training.

    Raises:
        ValueError: the model would get screenshots.
    """
    if shows_images(run.policy, run.settings):
        raise ValueError(
            f"{run.policy.name} gets screenshots, which only SDFT supports in training: turn them off with "
            "--set 'vision=\"none\"'."
        )


def _prepare(
    settings: TrainSettings, folder: Path, library: Library, policy: Any, last: int | None, progress: Progress | None
) -> Run:
    if last is not None:
        _log.info("Resuming from step %d of %d, the last checkpoint in %s.", last, settings.steps, folder)
    base = identity(policy.name, policy.source, policy.model)
    log = MetricsLog(folder / "metrics.jsonl", progress, resumed_at=last)
    rehearsal = library.rehearsal(settings, policy, folder, begun=last is not None)
    learner = library.student(policy, settings)
    practice = library.practice(settings, policy, learner["model"], folder, begun=last is not None)
    learned = [*tasks_before(settings), *trained_tasks(settings)]
    clock, learning = Clock(log, settings.minutes), Learning(log.kept)
    return Run(
        settings, folder, last, library, policy, base, learned, learner, log, clock, rehearsal, practice, learning
    )
