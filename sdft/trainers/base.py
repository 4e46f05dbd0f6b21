"""What the trainers of SDFT, SFT and GRPO have in common."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from selfsurf.sdft.loss.logits import make_ready
from selfsurf.sdft.loss.practice import Practice
from selfsurf.sdft.loss.rehearsal import Rehearsal
from selfsurf.sdft.rollouts import Result, RolloutError
from selfsurf.sdft.rows.samples import learnable
from selfsurf.sdft.run.checkpoints import WholeCheckpoints
from selfsurf.sdft.settings import TrainSettings

MOST_FAILED = 3
"""Batches in a row in which the environment failed in every episode, that end a run; fewer if it has fewer."""


class RunTrainer(WholeCheckpoints):
    """A trainer of a run, which comes before transformers' or TRL's own among a class's bases.

    It computes through leaner layers, is kept from forgetting, and can sit out a batch.
    """

    rehearsal: Rehearsal | None = None
    practice: Practice | None = None
    learned = True
    """Does the current batch teach anything, in any process? If not, the weights stay as they are (`LeaveAlone`)."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.packable = make_ready(self.model)
        self.seconds = {"learn": 0.0}
        """Wall-clock so far, by what it went into."""
        self._failed = 0
        self.add_callback(LeaveAlone(self))

    def note(self, figures: Mapping[str, float]) -> None:
        """Put columns into the next line of metrics."""
        metrics: Any = self
        for name, figure in figures.items():
            metrics._metrics["train"][name].append(figure)

    def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """One forward and backward pass; the rollout that comes before it is timed apart."""
        start, rolled = time.perf_counter(), self.seconds.get("rollout", 0.0)
        loss: torch.Tensor = super().training_step(*args, **kwargs)
        rollout = self.seconds.get("rollout", 0.0) - rolled
        self.seconds["learn"] += time.perf_counter() - start - rollout
        return loss

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """The loss, and what keeps the student from forgetting."""
        return super().compute_loss(model, inputs, *args, **kwargs) + self.forgetting(model)

    def forgetting(self, model: Any) -> torch.Tensor | float:
        """Return the weighted divergences from the untrained model and from the adapter of an earlier run."""
        total: torch.Tensor | float = 0.0
        for name, kept in {"rehearsal": self.rehearsal, "practice": self.practice}.items():
            if kept is not None:
                forgotten = kept.divergence(self.accelerator.unwrap_model(model), self.state.global_step)
                self.note({f"{name}/divergence": float(forgotten.detach())})
                total = total + kept.weight * forgotten
        return total

    def over_all(self, number: float) -> float:
        """The mean of a number over the processes. All of them must ask."""
        return float(self.accelerator.gather(torch.tensor(float(number), device=self.accelerator.device)).mean())

    def count_failed(self, results: Sequence[Result]) -> bool:
        """Count the batches in a row in which the environment failed in every episode; return whether this is none.

        Raises:
            RolloutError: there are too many of them.
        """
        usable = self.over_all(sum(map(learnable, results))) > 0
        self._failed = 0 if usable else self._failed + 1
        if self._failed == min(MOST_FAILED, self.state.max_steps):
            outcomes = sorted({f"{result.outcome} {result.detail}".strip() for result in results})
            raise RolloutError(
                f"No step of the last {self._failed} batches can be learned from: the environment failed "
                f"({'; '.join(outcomes)}). When that is mended, the same command with --resume (resume=True) goes on "
                "from the last checkpoint."
            )
        return usable


class LeaveAlone(TrainerCallback):
    """Leaves the weights as they are where a batch taught nothing.

    Gradients of zero would not: Adam goes on in the direction of the steps before.

    Args:
        trainer: knows whether it did.
    """

    def __init__(self, trainer: RunTrainer) -> None:
        self._trainer = trainer

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Take the gradients away, so that the optimizer skips all weights."""
        if not self._trainer.learned:
            for parameter in kwargs["model"].parameters():
                parameter.grad = None


def shared_arguments(settings: TrainSettings, checkpoints: Path) -> dict[str, Any]:
    """Return the settings of a run as those arguments of transformers' trainer that all three have."""
    return {
        "output_dir": str(checkpoints),
        "max_steps": settings.steps,
        "gradient_accumulation_steps": 1,
        "learning_rate": settings.learning_rate,
        "warmup_steps": min(settings.warmup_steps, settings.steps // 4),
        "lr_scheduler_type": "linear",
        "max_grad_norm": settings.max_grad_norm,
        "weight_decay": 0.0,
        "seed": settings.seed,
        "activation_checkpointing": settings.gradient_checkpointing,
        "activation_checkpointing_kwargs": {"use_reentrant": False},
        "bf16": False,
        "use_cpu": not torch.cuda.is_available() and not torch.backends.mps.is_available(),
        "logging_steps": 1,
        "logging_nan_inf_filter": False,
        "save_steps": settings.checkpoint_every,
        "save_total_limit": 2,
        "report_to": list(settings.report_to),
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
    }
