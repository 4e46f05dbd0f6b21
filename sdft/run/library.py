"""What a run needs of the library that learns: torch here, MLX in `sdft.mlx`. Loads none of them when imported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from selfsurf.sdft.settings import TrainSettings

Backend: TypeAlias = Literal["torch", "mlx"]
"""Names of the libraries."""


@dataclass(frozen=True)
class Library:
    """Loads, trains and saves models."""

    name: Backend
    trainer: type[Any]
    """Of SDFT (`sdft.trainers.sdft.EpisodeSDFTTrainer`, or one that takes the same)."""
    load: Callable[[TrainSettings], Any]
    """Loads the model of a run as a policy."""
    student: Callable[[Any, TrainSettings], dict[str, Any]]
    """Gives what a trainer is given to train, `model` and `peft_config`, of a policy."""
    rehearsal: Callable[..., Any]
    """As `sdft.loss.rehearsal.rehearsal_of`."""
    practice: Callable[..., Any]
    """As `sdft.loss.practice.practice_of`."""
    save: Callable[[Any, Path, dict[str, Any]], Any]
    """Writes an adapter (`sdft.run.model.save_adapter`), in the first of several processes; all call it."""
    finish: Callable[[Any, Path, dict[str, Any]], None]
    """Writes the adapter that a trainer leaves."""


def torch_library() -> Library:
    """Return torch, which is loaded now."""
    from selfsurf.sdft.loss.practice import practice_of
    from selfsurf.sdft.loss.rehearsal import rehearsal_of
    from selfsurf.sdft.run.model import load_policy, save_adapter, student
    from selfsurf.sdft.run.processes import is_first, whole
    from selfsurf.sdft.trainers.sdft import EpisodeSDFTTrainer

    def save(model: Any, folder: Path, about: dict[str, Any]) -> None:
        with whole(model):
            if is_first():
                save_adapter(model, folder, about)

    def finish(trainer: Any, folder: Path, about: dict[str, Any]) -> None:
        save(trainer.model, folder, about)
        trainer.accelerator.wait_for_everyone()

    return Library("torch", EpisodeSDFTTrainer, load_policy, student, rehearsal_of, practice_of, save, finish)
