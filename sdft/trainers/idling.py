"""Batches that teach nothing: they leave the weights as they are, and several in a row end a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import Trainer, TrainerCallback

from selfsurf.sdft.rollouts import Result, RolloutError
from selfsurf.sdft.rows.samples import learnable

MOST_FAILED = 3
"""Batches in a row in which the environment failed in every episode, that end a run; fewer if it has fewer."""


class Idling(Trainer):
    """A trainer that knows whether a batch taught anything. It comes before the real trainer among a class's bases."""

    learned = True
    """Has the current batch a loss, in any process? If not, the weights stay as they are (`LeaveAlone`)."""
    _failed = 0

    def over_all(self, number: float) -> float:
        """The mean of a number over the processes. All of them must ask."""
        return float(self.accelerator.gather(torch.tensor(float(number), device=self.accelerator.device)).mean())

    def count_failed(self, results: Sequence[Result]) -> bool:
        """Count the batches in a row in which the environment failed in every episode; return whether this is none.

        Raises:
            RolloutError: there are too many of them.
        """
        heard = self.over_all(sum(map(learnable, results))) > 0
        self._failed = 0 if heard else self._failed + 1
        if self._failed == min(MOST_FAILED, self.state.max_steps):
            outcomes = sorted({f"{result.outcome} {result.detail}".strip() for result in results})
            raise RolloutError(
                f"No step of the last {self._failed} batches can be learned from: the environment failed "
                f"({'; '.join(outcomes)}). When that is mended, the same command with --resume (resume=True) goes on "
                "from the last checkpoint."
            )
        return heard


class LeaveAlone(TrainerCallback):
    """Leaves the weights as they are where a batch taught nothing.

    Gradients of zero would not: Adam goes on in the direction of the steps before.

    Args:
        trainer: knows whether it did.
    """

    def __init__(self, trainer: Idling) -> None:
        self._trainer = trainer

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Take the gradients away, so that the optimizer skips all weights."""
        if not self._trainer.learned:
            for parameter in kwargs["model"].parameters():
                parameter.grad = None
