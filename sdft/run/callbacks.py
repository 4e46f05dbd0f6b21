"""What goes along with a training, whatever is trained: the time that it may take, and adapters kept on the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from selfsurf.sdft.run.adapter import save_adapter
from selfsurf.sdft.run.metrics import MetricsLog
from selfsurf.sdft.run.processes import is_first
from selfsurf.sdft.settings import TrainSettings


class Clock(TrainerCallback):
    """Stops training when its time is up.

    Args:
        log: knows the run's wall-clock, of all its starts.
        minutes: most wall-clock of the run; None for no limit.
    """

    def __init__(self, log: MetricsLog, minutes: float | None) -> None:
        self.log = log
        self.minutes = minutes
        self.cut_off = False
        """Whether the time was up before the last step."""

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Stop when the time is up."""
        if state.global_step >= state.max_steps:
            return
        if self.is_up():
            control.should_training_stop = control.should_save = True
            self.cut_off = True

    def is_up(self) -> bool:
        """Has the run had its time?"""
        return self.minutes is not None and self.log.all_seconds(2)["total"] >= 60 * self.minutes


class Snapshots(TrainerCallback):
    """Keeps the adapter every so many optimizer steps, as `step-N` in a folder.

    Args:
        folder: where.
        every: steps between two of them.
        about: what is written beside each.
    """

    def __init__(self, folder: Path, every: int, about: dict[str, Any]) -> None:
        self.folder = folder
        self.every = every
        self.about = about

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Save one."""
        if state.global_step % self.every == 0 and is_first():
            about = {**self.about, "steps": state.global_step}
            save_adapter(kwargs["model"], self.folder / f"step-{state.global_step}", about)


def keepers(settings: TrainSettings, folder: Path, about: dict[str, Any]) -> list[TrainerCallback]:
    """Return what keeps snapshots in a run's folder, if the settings ask for them."""
    every = settings.snapshot_every
    return [Snapshots(folder / "snapshots", every, about)] if every else []
