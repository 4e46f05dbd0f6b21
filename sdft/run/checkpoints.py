"""Best state of a run, and rollbacks to it, for any learning library."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback
from transformers.trainer_callback import ExportableState

from selfsurf.sdft.measure.heldout import Evaluation, better, comparable, fault
from selfsurf.sdft.run import checkpoint_files as files
from selfsurf.sdft.settings import TrainSettings

if TYPE_CHECKING:
    from selfsurf.sdft.run.interruption import InterruptibleSteps
    from selfsurf.sdft.run.metrics import MetricsLog


@dataclass(eq=False, repr=False)
class CheckpointManager(TrainerCallback, ExportableState):
    """Callback that evaluates a run on held-out episodes, keeps its best state, and rolls back if the model gets worse.

    Every evaluation is followed by a checkpoint, so the best state is one of the checkpoints and is never removed. A
    rollback restores adapter, teacher and optimizer; samples and schedule continue, with a lower learning rate. A model
    gets worse because a step was too long or by bad luck; new samples and shorter steps help against both.
    """

    trainer: Any
    """Trainer of the evaluated model. Its `args.output_dir` contains the checkpoints."""
    evaluate: Callable[[int], Evaluation]
    """Function that evaluates the model, given the number of optimizer steps so far."""
    settings: TrainSettings
    """Settings with the evaluation interval and the limits."""
    log: MetricsLog
    """Metrics log that records the reasons for rollbacks."""
    steps: InterruptibleSteps
    """Interrupt handling, which lets signals interrupt an evaluation."""
    resumed_at: int | None = None
    """Step of the checkpoint from which the run is resumed; None for a new run."""
    base: Evaluation | None = None
    """Evaluation of the model before the first step."""
    best: Evaluation | None = None
    rollbacks: int = 0
    enough: bool = False
    """Whether an evaluation after a step was good enough to stop (`TrainSettings.stop_at_success`)."""

    def __post_init__(self) -> None:
        self._folder = Path(self.trainer.args.output_dir)
        if self.resumed_at is not None:
            known = files.trainer_state(self._folder, self.resumed_at)["stateful_callbacks"]
            saved = known[type(self).__name__]["attributes"]
            self.base = Evaluation.model_validate(saved["base"])
            self.best = Evaluation.model_validate(saved["best"])
            self.rollbacks, self.enough = saved["rollbacks"], saved.get("enough", False)

    @property
    def stopped(self) -> bool:
        """Whether the run is over, after too many rollbacks or with a good enough evaluation."""
        return self.rollbacks >= self.settings.max_rollbacks or self.enough

    def state(self) -> dict[str, Any]:
        """Return the state that transformers saves in a checkpoint's `trainer_state.json`."""
        attributes = {"base": self.base and self.base.model_dump(), "best": self.best and self.best.model_dump()}
        return {"args": {}, "attributes": {**attributes, "rollbacks": self.rollbacks, "enough": self.enough}}

    def summary(self) -> dict[str, Any]:
        """Return the evaluations saved beside the adapter: its own and the base model's."""
        assert self.base is not None
        assert self.best is not None
        told = {"step", "perplexity", "drift"}
        return {
            "best": {**self.best.model_dump(include=told), "success": self.best.success},
            "base": {**self.base.model_dump(include=told), "success": self.base.success},
            "rollbacks": self.rollbacks,
            "measure": self.base.measure,
            "held_out": self.base.held_out,
            "states": sum(map(len, self.base.solved.values())),
            "episodes": self.base.episodes,
        }

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Evaluate the base model and write a checkpoint of it, unless an earlier start of the run did."""
        if self.best is not None:
            return
        self.base = self._evaluate(0)
        self._keep(self.base)
        self.trainer.log(self.base.figures())
        self.trainer._save_checkpoint(self.trainer.model, None)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Evaluate at the set interval, then keep the state or roll back."""
        every = self.settings.evaluate_every
        if state.global_step % every and not control.should_training_stop:
            # Interrupting an evaluation loses its step, so a checkpoint is written one step earlier.
            following = state.global_step + 1
            control.should_save |= following % every == 0 or following == state.max_steps
            return
        assert self.base is not None
        assert self.best is not None
        now = self._evaluate(state.global_step)
        reason = fault(now, self.best, self.base, self.settings)
        if reason:
            self._go_back(reason)
        elif better(now, self.best):
            self._keep(now)
        elif not comparable(now, self.best):
            failed = f"{now.env_errors} episode{'s' * (now.env_errors != 1)} failed because of the infrastructure"
            self.log.remark("not_compared", f"not compared with the best state: {failed}")
        wanted = self.settings.stop_at_success
        if wanted is not None and now.success is not None and not reason:
            self.enough = comparable(now, self.best) and now.success >= wanted - 1e-9
        self.trainer.note({**now.figures(), "rollbacks": self.rollbacks, "best_step": self.best.step})
        control.should_save = True
        control.should_training_stop |= self.stopped

    def restore_best(self) -> None:
        """Load adapter and teacher of the best state into the model."""
        assert self.best is not None
        self.trainer.put_back(self.best.step)

    def _evaluate(self, step: int) -> Evaluation:
        start = time.perf_counter()
        self.trainer.policy.forget()  # the weights have changed since the last batch
        with self.steps.breakable():
            found = self.evaluate(step)
        self.trainer.seconds["evaluate"] = self.trainer.seconds.get("evaluate", 0.0) + time.perf_counter() - start
        return found

    def _keep(self, evaluation: Evaluation) -> None:
        self.best = evaluation
        self.trainer.state.best_global_step = evaluation.step  # protects this checkpoint

    def _go_back(self, reason: str) -> None:
        assert self.best is not None
        self.restore_best()
        self.trainer.pipeline.forget()
        self.trainer.slow_down(self.best.step, self.settings.rollback_learning_rate)
        self.rollbacks += 1
        self.log.remark("rollback", f"{reason}: the state of step {self.best.step} is restored")
