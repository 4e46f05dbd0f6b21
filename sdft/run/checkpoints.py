"""Checkpoints that survive a kill, the best state of a run, and the way back to it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import Trainer, TrainerCallback
from transformers.trainer_callback import ExportableState

from selfsurf.sdft.measure.heldout import Evaluation, better, evaluate_heldout, fault
from selfsurf.sdft.run import checkpoint_files as files
from selfsurf.sdft.settings import TrainSettings
from selfsurf.sdft.teacher.weights import STUDENT, activate

if TYPE_CHECKING:
    from selfsurf.agents.llm_agent import LLMAgent
    from selfsurf.sdft.rollouts import Rollouts
    from selfsurf.sdft.run.metrics import MetricsLog
    from selfsurf.sdft.trainers.sdft import EpisodeSDFTTrainer


class WholeCheckpoints(Trainer):
    """A trainer whose checkpoints are whole or not there. It comes before the real trainer among a class's bases."""

    _saving_to: Path | None = None

    def _get_output_dir(self, trial: Any) -> str:
        return str(self._saving_to or super()._get_output_dir(trial))

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        folder = Path(self.args.output_dir)
        made = folder / files.UNFINISHED
        if self.is_world_process_zero():
            files.discard(made)
        self.accelerator.wait_for_everyone()
        self._saving_to = made
        try:
            with files.room_in(folder):
                super()._save_checkpoint(model, trial)
        finally:
            self._saving_to = None
        self.accelerator.wait_for_everyone()
        if self.is_world_process_zero():
            step = self.state.global_step
            with files.room_in(folder):
                files.note_hashes(files.checkpoint(made, step))
            files.publish(files.checkpoint(made, step), files.checkpoint(folder, step))
            made.rmdir()
            files.forget_old(folder, self.args.save_total_limit)
        self.accelerator.wait_for_everyone()


@dataclass(eq=False, repr=False)
class CheckpointManager(TrainerCallback, ExportableState):
    """Evaluates a run on held-out episodes, keeps its best state, and goes back to that when the model got worse.

    Every evaluation is followed by a checkpoint, so the best state is one of the checkpoints, which is never removed.
    Going back restores adapter, teacher and optimizer; the samples and the schedule go on, with a lower learning rate:
    what made the model worse is a step that was too long, or luck, and new samples and shorter steps help against both.
    """

    trainer: EpisodeSDFTTrainer
    """Whose model it is. Its `args.output_dir` holds the checkpoints."""
    agent: LLMAgent
    """Acts greedily with that model."""
    rollouts: Rollouts
    settings: TrainSettings
    """How often, on what, and what is too much."""
    log: MetricsLog
    """Records why the run went back."""
    resumed_at: int | None = None
    """Step of the checkpoint that the run is resumed from, if any."""
    base: Evaluation | None = None
    """Of the model before the first step."""
    best: Evaluation | None = None
    rollbacks: int = 0

    def __post_init__(self) -> None:
        self._folder = Path(self.trainer.args.output_dir)
        if self.resumed_at is not None:
            known = files.trainer_state(self._folder, self.resumed_at)["stateful_callbacks"]
            saved = known[type(self).__name__]["attributes"]
            self.base = Evaluation.model_validate(saved["base"])
            self.best = Evaluation.model_validate(saved["best"])
            self.rollbacks = saved["rollbacks"]

    @property
    def stopped(self) -> bool:
        """Has the run gone back so often that it is over?"""
        return self.rollbacks >= self.settings.max_rollbacks

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint has to hold of it; transformers puts it into `trainer_state.json`."""
        attributes = {"base": self.base and self.base.model_dump(), "best": self.best and self.best.model_dump()}
        return {"args": {}, "attributes": {**attributes, "rollbacks": self.rollbacks}}

    def summary(self) -> dict[str, Any]:
        """Return what is said beside the adapter: which step it is from, and how it compares with the base."""
        assert self.base is not None
        assert self.best is not None
        told = {"step", "perplexity", "drift"}
        return {
            "best": {**self.best.model_dump(include=told), "success": self.best.success},
            "base": {**self.base.model_dump(include=told), "success": self.base.success},
            "rollbacks": self.rollbacks,
        }

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Evaluate the base model and write a checkpoint of it, unless an earlier start of the run has."""
        if self.best is not None:
            return
        self.base = self._evaluate(0)
        self._keep(self.base)
        self.trainer.log(self.base.figures())
        self.trainer._save_checkpoint(self.trainer.model, None)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Evaluate, keep or go back, when it is time to."""
        if state.global_step % self.settings.evaluate_every and not control.should_training_stop:
            return
        assert self.base is not None
        assert self.best is not None
        now = self._evaluate(state.global_step)
        reason = fault(now, self.best, self.base, self.settings)
        if reason:
            self._go_back(reason)
        elif better(now, self.best):
            self._keep(now)
        self.trainer.note({**now.figures(), "rollbacks": self.rollbacks, "best_step": self.best.step})
        control.should_save = True
        control.should_training_stop |= self.stopped

    def restore_best(self) -> None:
        """Put adapter and teacher of the best state into the model."""
        assert self.best is not None
        model = self.trainer.model
        training = model.training
        self.trainer._load_from_checkpoint(str(files.checkpoint(self._folder, self.best.step)))
        activate(model, STUDENT)
        model.train(training)  # PEFT leaves a model in evaluation mode, by which TRL tells what figures are for

    def _evaluate(self, step: int) -> Evaluation:
        start = time.perf_counter()
        self.trainer.policy.forget()  # the weights have changed since the last batch
        found = evaluate_heldout(step, self.agent, self.trainer.policy, self.rollouts, self.settings)
        self.trainer.seconds["evaluate"] = self.trainer.seconds.get("evaluate", 0.0) + time.perf_counter() - start
        return found

    def _keep(self, evaluation: Evaluation) -> None:
        self.best = evaluation
        self.trainer.state.best_global_step = evaluation.step  # what spares its checkpoint

    def _go_back(self, reason: str) -> None:
        assert self.best is not None
        self.restore_best()
        self.trainer.pipeline.forget()
        saved = files.checkpoint(self._folder, self.best.step) / "optimizer.pt"
        optimizer, schedule = self.trainer.optimizer, self.trainer.lr_scheduler
        optimizer.load_state_dict(torch.load(saved, map_location="cpu", weights_only=True))
        factor = self.settings.rollback_learning_rate
        schedule.base_lrs = [rate * factor for rate in schedule.base_lrs]
        schedule._last_lr = [rate * factor for rate in schedule.get_last_lr()]
        for group, rate in zip(optimizer.param_groups, schedule.get_last_lr(), strict=True):
            group["lr"] = rate
        self.rollbacks += 1
        self.log.remark("rollback", f"{reason}: back to the state of step {self.best.step}")
