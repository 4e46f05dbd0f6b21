"""Learning: rollouts, samples, teacher, trainers, evaluation, adapters.

from selfsurf.sdft import TrainSettings, train

train(TrainSettings(tasks=("MiniWoB/click-link-v0",)), "runs/links")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from selfsurf.bare import alias

if TYPE_CHECKING:
    from selfsurf.sdft.settings import GRPOSettings as GRPOSettings
    from selfsurf.sdft.settings import TrainSettings as TrainSettings
    from selfsurf.sdft.trainers.grpo import train_grpo as train_grpo
    from selfsurf.sdft.trainers.sdft import NothingToTeach as NothingToTeach
    from selfsurf.sdft.trainers.sdft import train as train
    from selfsurf.sdft.trainers.sft import train_sft as train_sft

_HOMES = {
    "GRPOSettings": "settings", "TrainSettings": "settings", "NothingToTeach": "trainers.sdft",
    "train": "trainers.sdft", "train_grpo": "trainers.grpo", "train_sft": "trainers.sft",
}  # fmt: skip
"""Public names and the modules that they are loaded from when they are asked for: importing this loads no torch."""

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"selfsurf.sdft.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


alias(__name__)
