"""Interface of a learning library: torch here, MLX in `sdft.mlx`. Importing it loads neither."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from selfsurf.sdft.settings import TrainSettings

Backend: TypeAlias = Literal["torch", "mlx"]
"""Names of the learning libraries."""


@dataclass(frozen=True)
class Library:
    """Functions of a learning library that load, train and save models."""

    name: Backend
    load: Callable[[TrainSettings], Any]
    """Function that loads the model of a run as a policy."""
    student: Callable[[Any, TrainSettings], dict[str, Any]]
    """Function that returns the trainer's `model` and `peft_config` for a policy."""
    rehearsal: Callable[..., Any]
    """Function that returns a run's rehearsal (`sdft.forgetting.rehearsal.rehearsal_of`)."""
    practice: Callable[..., Any]
    """Function that returns a run's practice (`sdft.forgetting.practice.practice_of`)."""
    save: Callable[[Any, Path, dict[str, Any]], Any]
    """Function that writes an adapter (`sdft.run.model.save_adapter`). Every process calls it; only the first writes.
    """
    finish: Callable[[Any, Path, dict[str, Any]], None]
    """Function that writes the final adapter of a trainer."""


def torch_library() -> Library:
    """Load torch and return it as a `Library`."""
    from selfsurf.sdft.forgetting.practice import practice_of
    from selfsurf.sdft.forgetting.rehearsal import rehearsal_of
    from selfsurf.sdft.processes import is_first, unsharded
    from selfsurf.sdft.run.model import load_policy, save_adapter, student

    def save(model: Any, folder: Path, about: dict[str, Any]) -> None:
        with unsharded(model):
            if is_first():
                save_adapter(model, folder, about)

    def finish(trainer: Any, folder: Path, about: dict[str, Any]) -> None:
        save(trainer.model, folder, about)
        trainer.accelerator.wait_for_everyone()

    return Library("torch", load_policy, student, rehearsal_of, practice_of, save, finish)
