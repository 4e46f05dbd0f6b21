"""Learning for browser agents: rollouts, samples, teacher, trainers, evaluation and adapters.

from selfsurf.sdft import TrainSettings, train

train(TrainSettings(tasks=("MiniWoB/click-link-v0",)), "runs/links")

A custom trainer uses `make_collector`, `rows_of` and `score` (docs/own-trainer.md).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from selfsurf.agents.quiet import quiet
from selfsurf.bare import alias

if TYPE_CHECKING:
    from selfsurf.sdft.loss.scoring import score as score
    from selfsurf.sdft.rollouts import Job as Job
    from selfsurf.sdft.rollouts.collector import Collector as Collector
    from selfsurf.sdft.rollouts.layout import RolloutSettings as RolloutSettings
    from selfsurf.sdft.rows.samples import rows_of as rows_of
    from selfsurf.sdft.run.batches import NothingToTeach as NothingToTeach
    from selfsurf.sdft.run.make import make_collector as make_collector
    from selfsurf.sdft.settings import GRPOSettings as GRPOSettings
    from selfsurf.sdft.settings import TrainSettings as TrainSettings
    from selfsurf.sdft.trainers.grpo import train_grpo as train_grpo
    from selfsurf.sdft.trainers.sft import train_sft as train_sft
    from selfsurf.sdft.trainers.train import train as train
    from selfsurf.sdft.trainers.verifier import train_verifier as train_verifier

_HOMES = {
    "GRPOSettings": "settings", "TrainSettings": "settings", "NothingToTeach": "run.batches",
    "train": "trainers.train", "train_grpo": "trainers.grpo", "train_sft": "trainers.sft",
    "train_verifier": "trainers.verifier",
    "Collector": "rollouts.collector", "Job": "rollouts", "RolloutSettings": "rollouts.layout",
    "make_collector": "run.make", "rows_of": "rows.samples", "score": "loss.scoring",
}  # fmt: skip
"""Module of each public name. Modules are imported on first access, so importing the package doesn't load torch."""

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"selfsurf.sdft.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


quiet()
alias(__name__)
