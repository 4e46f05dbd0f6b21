"""A torch trainer with atomic checkpoints and rollbacks to them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import Trainer

from selfsurf.agents.adapters.identity import write_about
from selfsurf.sdft.run import checkpoint_files as files
from selfsurf.sdft.teacher.weights import STUDENT, activate


class AtomicCheckpoints(Trainer):
    """Mixin that makes checkpoints atomic. Has to precede the actual trainer among a class's bases."""

    about: Mapping[str, Any] | None = None
    """Metadata saved beside every adapter of the run, including checkpoints; None for none."""
    _saving_to: Path | None = None

    def _get_output_dir(self, trial: Any) -> str:
        return str(self._saving_to or super()._get_output_dir(trial))

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        folder = Path(self.args.output_dir)
        made = folder / files.UNFINISHED
        if self.is_world_process_zero():
            files.discard(made)
        self.accelerator.wait_for_everyone()
        self._saving_to = made
        try:
            with files.room_in(folder):
                super()._save_checkpoint(model, trial)
        finally:
            self._saving_to = None
        self.accelerator.wait_for_everyone()
        if self.is_world_process_zero():
            step = self.state.global_step
            with files.room_in(folder):
                if self.about is not None:
                    write_about(files.checkpoint(made, step), {**self.about, "steps": step})
                files.note_hashes(files.checkpoint(made, step))
            files.publish(files.checkpoint(made, step), files.checkpoint(folder, step))
            made.rmdir()
            files.forget_old(folder, self.args.save_total_limit)
        self.accelerator.wait_for_everyone()

    def put_back(self, step: int) -> None:
        """Load adapter and teacher of a checkpoint into the model."""
        training = self.model.training
        self._load_from_checkpoint(str(files.checkpoint(Path(self.args.output_dir), step)))
        activate(self.model, STUDENT)
        self.model.train(training)  # PEFT leaves evaluation mode on; TRL files metrics by mode

    def slow_down(self, step: int, factor: float) -> None:
        """Restore the optimizer from a checkpoint, and multiply the learning rate by `factor` from now on."""
        saved = files.checkpoint(Path(self.args.output_dir), step) / "optimizer.pt"
        optimizer, schedule = self.optimizer, self.lr_scheduler
        optimizer.load_state_dict(torch.load(saved, map_location="cpu", weights_only=True))
        schedule.base_lrs = [rate * factor for rate in schedule.base_lrs]
        schedule._last_lr = [rate * factor for rate in schedule.get_last_lr()]
        for group, rate in zip(optimizer.param_groups, schedule.get_last_lr(), strict=True):
            group["lr"] = rate
