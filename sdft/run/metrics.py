"""Metrics of a training run: a line of `metrics.jsonl` per step, which TensorBoard, trackio or wandb may also get."""

from __future__ import annotations

import json
import math
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
from transformers import TrainerCallback

from selfsurf.browser_env.disk import intact_lines
from selfsurf.browser_env.record.episode import write_atomically
from selfsurf.sdft.processes import is_first
from selfsurf.sdft.rollouts import Result
from selfsurf.sdft.rows.samples import Sample, own_doing
from selfsurf.sdft.run.checkpoint_files import room_in

Progress = Callable[[int, dict[str, float]], None]

_FAMILIES = ("success", "masked", "evaluation/tasks")
"""Families of columns: `family/name` is stored in `metrics.jsonl` under one object `family`."""
_STEP_COLUMNS = ("loss", "evaluation/perplexity")
"""Columns that identify a log as a line of metrics: the first in the log of a step, the second in that of the base
model. A run's closing log has neither."""


def batch_figures(results: Sequence[Result], samples: Sequence[Sample], rows: Sequence[Sample]) -> dict[str, float]:
    """Return the columns that describe a batch.

    Args:
        results: episodes of the batch.
        samples: steps of the episodes that can be learned from.
        rows: samples that are learned from.
    """
    judged = [result for result in results if result.trainable and result.judged]
    own = [result for result in judged if not result.led]
    solved: dict[str, list[bool]] = {}
    for result in own:
        solved.setdefault(result.job.env_id, []).append(result.solved)
    masked = Counter(f"masked/{result.outcome}" for result in results if not own_doing(result))
    compared = [sample.right for sample in samples if sample.right is not None]
    sampled = sum(len(step.decision.completion.token_ids) for result in results for step in result.steps)
    return {
        **({"episodes/success": sum(result.solved for result in own) / len(own)} if own else {}),
        "episodes/led": len(judged) - len(own),
        "episodes/masked": masked.total(),
        "episodes/masked_share": masked.total() / len(results),
        **{f"success/{task}": sum(flags) / len(flags) for task, flags in solved.items()},
        **masked,
        **({"steps/right": sum(compared) / len(compared)} if compared else {}),
        "rows": len(rows),
        "rows/left_out": len(samples) - len(rows),
        "rows/prompt_tokens": float(np.mean([len(row.prompt_ids) for row in rows] or [0])),
        "tokens/generated": sampled,
        "tokens/learned": sum(len(row.completion_ids) for row in rows),
    }


def memory_figures() -> dict[str, float]:
    """Return this process's peak memory, and torch's peak memory on a GPU, in MB."""
    unit = 1 if sys.platform == "darwin" else 1024
    found = {"memory/peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20}
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        found["memory/gpu_peak_mb"] = torch.cuda.max_memory_allocated() / 2**20
    return found


class MetricsLog(TrainerCallback):
    """Callback that writes a line of metrics per step and reports progress.

    Args:
        path: path of the file. A resumed run keeps the lines up to its checkpoint; later steps are run again.
        progress: function called after every step with its number and metrics.
        resumed_at: step of the checkpoint from which the run is resumed; None for a new run.
    """

    def __init__(self, path: Path, progress: Progress | None, resumed_at: int | None) -> None:
        self.path = path
        self.seconds: dict[str, float] = {}
        """Wall-clock seconds by activity over all starts of the run. The trainer adds to it."""
        self._progress = progress
        self._remarks: dict[str, str] = {}
        step = -1 if resumed_at is None else resumed_at
        self.kept = list(takewhile(lambda line: line["step"] <= step, intact_lines(path)))
        """Lines of metrics written by earlier starts."""
        if is_first():
            write_atomically(path, "".join(json.dumps(line) + "\n" for line in self.kept))
        if self.kept:
            self.seconds = dict(self.kept[-1]["seconds"])
        self._made = time.time()
        self._start = self._made - self.seconds.pop("total", 0.0)

    def has(self, column: str) -> bool:
        """Whether an earlier start wrote the column, up to the checkpoint from which the run is resumed."""
        return any(column in line for line in self.kept)

    def remark(self, column: str, text: str) -> None:
        """Add a text to the next line."""
        self._remarks[column] = text

    def prepared(self) -> None:
        """Count the time so far as preparation; called when training begins or resumes."""
        spent = time.time() - self._made
        self.seconds["prepare"] = self.seconds.get("prepare", 0.0) + spent

    def all_seconds(self, digits: int) -> dict[str, float]:
        """Return the wall-clock seconds of all starts by activity, and in `total`."""
        spent = {"total": time.time() - self._start, **self.seconds}
        return {name: round(value, digits) for name, value in spent.items()}

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
        """Write the step's metrics."""
        if not is_first() or not logs or not any(column in logs for column in _STEP_COLUMNS):
            return
        line = {"step": state.global_step, **_nested(logs), **self._remarks, "seconds": self.all_seconds(2)}
        self._remarks = {}
        with room_in(self.path.parent), self.path.open("a", encoding="utf8") as file:
            file.write(json.dumps(line) + "\n")
        if self._progress and "loss" in logs:
            self._progress(state.global_step, logs)


def _nested(logs: Mapping[str, float]) -> dict[str, Any]:
    """Return a step's columns as stored in the file: families as objects, NaN and infinity as null."""
    line: dict[str, Any] = {"success": {}, "masked": {}} if "loss" in logs else {}
    for column, value in logs.items():
        figure = value if math.isfinite(value) else None
        family = next((name for name in _FAMILIES if column.startswith(f"{name}/")), None)
        if family is None:
            line[column] = figure
        else:
            line.setdefault(family, {})[column.removeprefix(f"{family}/")] = figure
    return line
