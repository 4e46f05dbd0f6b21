"""What goes along with a training, whatever is trained: the time that it may take, and adapters kept on the way."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from sdft.adapter import save_adapter
from sdft.settings import TrainSettings


class Clock(TrainerCallback):
    """Adds `elapsed` seconds to every line of metrics, and stops training when its time is up. Goes before the log.

    Args:
        metrics: the run's lines of metrics, from which a resumed run takes what was spent before.
        minutes: most wall-clock of the run; None for no limit.
    """

    def __init__(self, metrics: Path, minutes: float | None) -> None:
        self.metrics = metrics
        self.minutes = minutes
        self.cut_off = False
        """Whether the time was up before the last step."""
        self._before = 0.0
        self._start = time.time()

    def elapsed(self) -> float:
        """Seconds since the run began, those before a resumption included."""
        return self._before + time.time() - self._start

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Take over what earlier starts have spent."""
        lines = self.metrics.read_text(encoding="utf8").splitlines() if self.metrics.exists() else []
        spent = [line.get("elapsed", 0.0) for line in map(json.loads, lines) if line["step"] <= state.global_step]
        self._before = spent[-1] if spent else 0.0

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
        """Add the time."""
        if logs is not None:
            logs["elapsed"] = round(self.elapsed(), 2)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Stop when the time is up."""
        if self.minutes is not None and self.elapsed() >= 60 * self.minutes and state.global_step < state.max_steps:
            control.should_training_stop = control.should_save = True
            self.cut_off = True


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
        if state.global_step % self.every == 0:
            about = {**self.about, "steps": state.global_step}
            save_adapter(kwargs["model"], self.folder / f"step-{state.global_step}", about)


def keepers(settings: TrainSettings, folder: Path, about: dict[str, Any]) -> list[TrainerCallback]:
    """Return what keeps snapshots in a run's folder, if the settings ask for them."""
    every = settings.snapshot_every
    return [Snapshots(folder / "snapshots", every, about)] if every else []
