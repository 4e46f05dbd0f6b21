"""What must not be forgotten, as a part of a trainer's loss."""

from __future__ import annotations

from typing import Any

from transformers import Trainer

from selfsurf.sdft.loss.practice import Practice
from selfsurf.sdft.loss.rehearsal import Rehearsal


class Remembering(Trainer):
    """A trainer whose loss has rehearsal and practice in it. It comes before the real one among a class's bases."""

    rehearsal: Rehearsal | None = None
    practice: Practice | None = None

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """TRL's loss, and the weighted divergences from the untrained model and from the adapter of an earlier run."""
        loss = super().compute_loss(model, inputs, *args, **kwargs)
        metrics: Any = self
        for name, kept in {"rehearsal": self.rehearsal, "practice": self.practice}.items():
            if kept is not None:
                forgotten = kept.divergence(self.accelerator.unwrap_model(model), self.state.global_step)
                metrics._metrics["train"][f"{name}/divergence"].append(float(forgotten.detach()))
                loss = loss + kept.weight * forgotten
        return loss
