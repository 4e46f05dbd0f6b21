"""Export of an unfinished run's adapter from its last checkpoint. Loads no model."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from selfsurf.agents.adapters.convert import mlx_to_peft
from selfsurf.agents.adapters.identity import CONFIG, PEFT_WEIGHTS, read_about
from selfsurf.agents.adapters.mlx import MLX_WEIGHTS
from selfsurf.sdft.run.checkpoint_files import check_whole, checkpoint, last_step, steps_saved
from selfsurf.sdft.run.folder import alone_in
from selfsurf.sdft.run.model import save_adapter


@dataclass(frozen=True)
class _Saved:
    """An adapter on disk with the saving interface of a model."""

    folder: Path
    base: str

    def save_pretrained(self, made: str) -> None:
        """Write the adapter into a new folder in PEFT's format."""
        if (self.folder / MLX_WEIGHTS).exists():
            mlx_to_peft(self.folder, made, base=self.base)
            return
        for name in (PEFT_WEIGHTS, CONFIG):
            shutil.copy2(self.folder / name, made)


def export(run: Path) -> tuple[Path, int]:
    """Write the adapter of a run's last checkpoint to the run's folder `adapter`, replacing any earlier one.

    Args:
        run: folder given to `sdft.train`.

    Returns:
        The adapter's folder and the checkpoint's step.

    Raises:
        ValueError: the run has no checkpoint, the last one is damaged or of an earlier version, or a training is
            running there.
    """
    last = last_step(run)
    if last is None:
        raise ValueError(f"{run} holds no checkpoint of a training run.")
    with alone_in(run):
        saved = run / "checkpoints"
        folder = checkpoint(saved, last)
        check_whole(folder, [step for step in steps_saved(saved) if step < last])
        about = read_about(folder)
        if "settings" not in about:
            raise ValueError(f"{folder} was written by an earlier version: resume the training to export its adapter.")
        return save_adapter(_Saved(folder, about["base_model"]), run / "adapter", about), last
