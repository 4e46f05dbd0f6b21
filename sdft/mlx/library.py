"""MLX as the learning library of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from selfsurf.sdft.run.library import Library
from selfsurf.sdft.settings import TrainSettings


def check_mlx(settings: TrainSettings) -> None:
    """Refuse settings that only torch supports, before anything is loaded.

    Raises:
        ValueError: such a setting is given, or MLX is not installed.
    """
    from importlib.util import find_spec

    from selfsurf.agents.policies.mlx.loading import is_vision
    from selfsurf.agents.policies.mlx.policy import folder_of
    from selfsurf.extras import how_to_install
    from selfsurf.sdft.processes import check_alone

    if find_spec("mlx") is None or find_spec("mlx_lm") is None:
        raise ValueError(f"MLX is not installed: {how_to_install('mlx')}")
    check_alone("--backend mlx")
    instead = {
        "quantization": "give a model quantized by `mlx_lm convert -q` instead",
        "gradient_checkpointing": "MLX already processes only a few rows at a time",
        "lora_vision": "only text models are trained",
        "report_to": "the metrics are in metrics.jsonl",
    }
    for name, why in instead.items():
        if getattr(settings, name) != TrainSettings.model_fields[name].default:
            raise ValueError(f"{name} is not supported with MLX ({why}): leave it out, or train with torch.")
    if settings.rollouts.workers:
        raise ValueError("Workers sample with torch: leave out rollouts.workers, or train with torch.")
    if is_vision(folder_of(settings.model)):
        raise ValueError(f"{settings.model} is a vision model, and MLX trains only text models: train it with torch.")


def mlx_library() -> Library:
    """Load MLX and return it as a `Library`."""
    from selfsurf.sdft.mlx.forgetting import practice_of, rehearsal_of
    from selfsurf.sdft.mlx.student import load, student
    from selfsurf.sdft.run.model import save_adapter

    def finish(trainer: Any, folder: Path, about: dict[str, Any]) -> None:
        save_adapter(trainer.model, folder, about)

    return Library("mlx", load, student, rehearsal_of, practice_of, save_adapter, finish)
