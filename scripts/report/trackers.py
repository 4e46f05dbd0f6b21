"""Export of a results folder to TensorBoard, trackio or wandb: figures, success over time, episodes, screenshots."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from selfsurf.scripts.report.markdown import plain, table
from selfsurf.scripts.report.reading import Line
from selfsurf.scripts.report.summary import SPREADS, Row, Summary
from selfsurf.sdft.run.reporters import reporting

COLUMNS = (
    "task", "seed", "outcome", "reward", "raw_reward", "steps", "seconds", "prompt_tokens", "completion_tokens", "cost",
    "attempts", "env_errors", "reason", "outcome_detail", "answer",
)  # fmt: skip
"""Columns of the table of episodes."""

MOST_PICTURES = 50
"""Maximum number of final screenshots of unsolved episodes."""


def track(names: Sequence[str], summary: Summary) -> None:
    """Export a results folder to trackers. TensorBoard's files are replaced; a run in wandb is resumed.

    TensorBoard's files are in `logs/` of the results folder or, if TENSORBOARD_LOGGING_DIR is set, in a subfolder of
    that with the results folder's name. The project in wandb and trackio is WANDB_PROJECT, or `selfsurf`.

    Args:
        names: Any of tensorboard, wandb, trackio (`sdft.run.reporters.check_reporters`).
        summary: Figures of the results folder.
    """
    with reporting(names, summary.results.folder / "logs"):
        for name in names:
            if name == "tensorboard":
                _tensorboard(summary)
            else:
                _wandb(name, summary)


def figures(summary: Summary) -> dict[str, float]:
    """Return the figures of all tasks, each split and group, and each task, under keys such as `strict/all tasks`."""
    found: dict[str, float] = {}
    for row in (*summary.parts, *summary.tasks):
        found |= {f"{what}/{row.name}": value for what, value in _row(row)}
    return found


def _row(row: Row) -> Iterator[tuple[str, float]]:
    for what in ("strict", "lenient", "reward", "time_reward"):
        mean = getattr(row, what)
        if mean is not None:
            yield what, mean.mean
    for what in SPREADS:
        spread = getattr(row, what)
        if spread is not None:
            yield f"{what}_median", spread.median
    yield "env_errors", row.env_errors
    yield "missing", row.missing
    if row.cost is not None:
        yield "cost", row.cost


def _episodes(summary: Summary) -> list[list[Any]]:
    return [[getattr(line, column) for column in COLUMNS] for line in summary.results.lines]


def _pictures(summary: Summary) -> Iterator[tuple[Line, Path]]:
    shown = ((line, summary.results.inside(line.screenshot)) for line in summary.failures)
    for _, (line, path) in zip(range(MOST_PICTURES), ((line, path) for line, path in shown if path), strict=False):
        yield line, path


def _tensorboard(summary: Summary) -> None:
    import numpy as np
    from PIL import Image
    from torch.utils.tensorboard import SummaryWriter

    results = summary.results.folder.resolve()
    folder = Path(os.environ["TENSORBOARD_LOGGING_DIR"]) / results.name
    if results.is_relative_to(folder.resolve()):
        folder /= "logs"
    for file in folder.glob("events.out.tfevents*"):
        file.unlink()
    with SummaryWriter(str(folder)) as writer:
        number = summary.overall.episodes
        for name, value in figures(summary).items():
            writer.add_scalar(name, value, number)
        for point in summary.time_curve:
            writer.add_scalar("running/strict", point.strict, point.episodes)
            writer.add_scalar("running/lenient", point.lenient, point.episodes)
        rows = [["" if value is None else plain(value) for value in row] for row in _episodes(summary)]
        writer.add_text("episodes", "\n".join(table(COLUMNS, rows)), number)
        for line, path in _pictures(summary):
            with Image.open(path) as picture:
                pixels = np.asarray(picture.convert("RGB"))
            writer.add_image(f"unsolved/{line.task}, seed {line.seed}", pixels, number, dataformats="HWC")


def _wandb(name: str, summary: Summary) -> None:
    """Export to wandb, or to trackio, which has the same functions."""
    library, run = import_module(name), summary.results.run
    folder = summary.results.folder.resolve()
    same = {"id": hashlib.sha256(f"{folder} {run.started}".encode()).hexdigest()[:16]} if name == "wandb" else {}
    config = run.model_dump(mode="json", exclude={"sessions"})
    project = os.environ.get("WANDB_PROJECT", "selfsurf")
    library.init(project=project, name=folder.name, config=config, resume="allow", **same)
    for point in summary.time_curve:
        library.log({"running/strict": point.strict, "running/lenient": point.lenient}, step=point.episodes)
    shown: dict[str, Any] = dict(figures(summary))
    if name == "wandb":
        shown["episodes"] = library.Table(columns=list(COLUMNS), data=_episodes(summary))
        shown["unsolved"] = [
            library.Image(str(path), caption=f"{line.task}, seed {line.seed}") for line, path in _pictures(summary)
        ]
    library.log(shown, step=summary.overall.episodes + 1)
    library.finish()
