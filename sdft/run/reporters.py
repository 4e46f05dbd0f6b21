"""Destinations of metrics besides a run's folder: TensorBoard, trackio and wandb."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

_FOLDERS = {"tensorboard": "TENSORBOARD_LOGGING_DIR", "trackio": "TRACKIO_DIR", "wandb": "WANDB_DIR"}
"""Environment variables that set each destination's output folder."""


def check_reporters(names: Sequence[str]) -> None:
    """Check that the destinations exist and are installed.

    Raises:
        ValueError: a name is unknown, or its package is not installed.
    """
    unknown = [name for name in names if name not in _FOLDERS]
    if unknown:
        raise ValueError(f"report_to takes {', '.join(_FOLDERS)}, not {unknown[0]!r}.")
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        names = ", ".join(missing)
        raise ValueError(f"report_to needs {names}, which is not installed: pip install {' '.join(missing)}")


@contextlib.contextmanager
def reporting(names: Sequence[str], folder: Path) -> Iterator[None]:
    """Set the destinations' output to `folder` within this context, unless environment variables set it."""
    ours = {_FOLDERS[name]: str(folder) for name in names if _FOLDERS[name] not in os.environ}
    if ours:
        folder.mkdir(parents=True, exist_ok=True)
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            del os.environ[name]
