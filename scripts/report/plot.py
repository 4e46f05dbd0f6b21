"""Curves as PNG files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def drawn(
    path: Path, size: tuple[float, float] = (7, 7), rows: int = 1, columns: int = 1, **share: bool
) -> Iterator[Any]:
    """Give the axes to draw into (an array where there are several), and write them to a file at the end."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(rows, columns, figsize=size, **share)
    try:
        yield axes
        figure.tight_layout()
        figure.savefig(path, dpi=120)
    finally:
        plt.close(figure)
