"""Plots as PNG files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def against_environments(axes: tuple[Any, Any], counts: Sequence[int], labels: tuple[str, str]) -> None:
    """Label two stacked axes that plot figures against the number of environments."""
    for axis, label in zip(axes, labels, strict=True):
        axis.set_ylabel(label)
        axis.set_ylim(bottom=0)
        if axis.lines:
            axis.legend(fontsize=8)
    axes[1].set_xlabel("environments")
    axes[1].set_xscale("log", base=2)
    axes[1].set_xticks(counts, [str(count) for count in counts])


@contextmanager
def drawn(
    path: Path, size: tuple[float, float] = (7, 7), rows: int = 1, columns: int = 1, **share: bool
) -> Iterator[Any]:
    """Yield the axes to draw into (an array if there are several), and save the figure to a file on exit."""
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
