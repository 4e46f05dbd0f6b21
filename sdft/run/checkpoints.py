"""Checkpoints that survive a kill, the best state of a run, and the way back to it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import Trainer, TrainerCallback
from transformers.trainer_callback import ExportableState

from selfsurf.sdft.measure.heldout import Evaluation, better, evaluate_heldout, fault
from selfsurf.sdft.run.checkpoint_files import (
    UNFINISHED,
    checkpoint,
    discard,
    forget_old,
    note_hashes,
    publish,
    room_in,
    trainer_state,
)
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
        made = folder / UNFINISHED
        if self.is_world_process_zero():
            discard(made)
        self.accelerator.wait_for_everyone()
        self._saving_to = made
        try:
            with room_in(folder):
                super()._save_checkpoint(model, trial)
        finally:
            self._saving_to = None
        self.accelerator.wait_for_everyone()
        if self.is_world_process_zero():
            step = self.state.global_step
            with room_in(folder):
                note_hashes(checkpoint(made, step))
            publish(checkpoint(made, step), checkpoint(folder, step))
            made.rmdir()
            forget_old(folder, self.args.save_total_limit)
        self.accelerator.wait_for_everyone()


class CheckpointManager(TrainerCallback, ExportableState):
    """Evaluates a run on held-out episodes, keeps its best state, and goes back to that when the model got worse.

    Every evaluation is followed by a checkpoint, so the best state is one of the checkpoints, which is never removed.
    Going back restores adapter, teacher and optimizer; the samples and the schedule go on, with a lower learning rate:
    what made the model worse is a step that was too long, or luck, and new samples and shorter steps help against both.

    Args:
        trainer: whose model it is. Its `args.output_dir` holds the checkpoints.
        agent: acts greedily with that model.
        rollouts: the environments.
        settings: how often, on what, and what is too much.
        log: records why the run went back.
        resumed_at: step of the checkpoint that the run is resumed from, if any.
    """

    def __init__(
        self,
        trainer: EpisodeSDFTTrainer,
        agent: LLMAgent,
        rollouts: Rollouts,
        settings: TrainSettings,
        log: MetricsLog,
        resumed_at: int | None = None,
    ) -> None:
        self._trainer = trainer
        self._agent = agent
        self._rollouts = rollouts
        self._settings = settings
        self._log = log
        self._folder = Path(trainer.args.output_dir)
        self.base: Evaluation | None = None
        """Of the model before the first step."""
        self.best: Evaluation | None = None
        self.rollbacks = 0
        if resumed_at is not None:
            saved = trainer_state(self._folder, resumed_at)["stateful_callbacks"][type(self).__name__]["attributes"]
            self.base = Evaluation.model_validate(saved["base"])
            self.best = Evaluation.model_validate(saved["best"])
            self.rollbacks = saved["rollbacks"]

    @property
    def stopped(self) -> bool:
        """Has the run gone back so often that it is over?"""
        return self.rollbacks >= self._settings.max_rollbacks

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
        self._trainer.log(self.base.figures())
        self._trainer._save_checkpoint(self._trainer.model, None)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Evaluate, keep or go back, when it is time to."""
        if state.global_step % self._settings.evaluate_every and not control.should_training_stop:
            return
        assert self.base is not None
        assert self.best is not None
        now = self._evaluate(state.global_step)
        reason = fault(now, self.best, self.base, self._settings)
        if reason:
            self._go_back(reason)
        elif better(now, self.best):
            self._keep(now)
        self._trainer.note({**now.figures(), "rollbacks": self.rollbacks, "best_step": self.best.step})
        control.should_save = True
        control.should_training_stop |= self.stopped

    def restore_best(self) -> None:
        """Put adapter and teacher of the best state into the model."""
        assert self.best is not None
        model = self._trainer.model
        training = model.training
        self._trainer._load_from_checkpoint(str(checkpoint(self._folder, self.best.step)))
        activate(model, STUDENT)
        model.train(training)  # PEFT leaves a model in evaluation mode, by which TRL tells what figures are for

    def _evaluate(self, step: int) -> Evaluation:
        start = time.perf_counter()
        self._trainer.policy.forget()  # the weights have changed since the last batch
        found = evaluate_heldout(step, self._agent, self._trainer.policy, self._rollouts, self._settings)
        self._trainer.seconds["evaluate"] = self._trainer.seconds.get("evaluate", 0.0) + time.perf_counter() - start
        return found

    def _keep(self, evaluation: Evaluation) -> None:
        self.best = evaluation
        self._trainer.state.best_global_step = evaluation.step  # what spares its checkpoint

    def _go_back(self, reason: str) -> None:
        assert self.best is not None
        self.restore_best()
        self._trainer.pipeline.forget()
        saved = checkpoint(self._folder, self.best.step) / "optimizer.pt"
        optimizer, schedule = self._trainer.optimizer, self._trainer.lr_scheduler
        optimizer.load_state_dict(torch.load(saved, map_location="cpu", weights_only=True))
        factor = self._settings.rollback_learning_rate
        schedule.base_lrs = [rate * factor for rate in schedule.base_lrs]
        schedule._last_lr = [rate * factor for rate in schedule.get_last_lr()]
        for group, rate in zip(optimizer.param_groups, schedule.get_last_lr(), strict=True):
            group["lr"] = rate
        self.rollbacks += 1
        self._log.remark("rollback", f"{reason}: back to the state of step {self.best.step}")
