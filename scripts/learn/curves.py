"""The curves of a comparison, as PNG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

WINDOW = 5
"""Batches whose success is averaged for a line."""


def draw(figures: dict[str, Any], out: Path) -> list[Path]:
    """Draw success over steps and time, and what is forgotten against what is learned; return the files' paths."""
    import matplotlib

    matplotlib.use("Agg")
    return [path for path in (_learning(figures, out), _forgetting(figures, out)) if path]


def _learning(figures: dict[str, Any], out: Path) -> Path | None:
    """Success of the training episodes, where an arm has such, and the levels that were measured afterwards."""
    import matplotlib.pyplot as plt

    arms = figures["arms"]
    acting = {name: arm for name, arm in arms.items() if any(map(_acted, arm["training"]))}
    if not acting:
        return None
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.5), sharey=True)
    for axis, key, label, scale in ((axes[0], "step", "optimizer step", 1), (axes[1], "seconds", "minutes", 60)):
        for number, (name, arm) in enumerate(acting.items()):
            for index, training in enumerate(filter(_acted, arm["training"])):
                curve = training["curve"]
                axis.plot(
                    [point[key] / scale for point in curve], _smooth([point["success"] for point in curve]),
                    color=f"C{number}", alpha=0.8, label=f"{name}, training episodes" if index == 0 else None,
                )  # fmt: skip
        for number, (name, arm) in enumerate(arms.items()):
            if arm["trained"]["success"] is not None:
                axis.axhline(
                    arm["trained"]["success"], color=_colour(name, acting, number), linestyle="--", linewidth=1,
                    label=f"{name}, measured: {arm['trained']['success']:.2f}",
                )  # fmt: skip
        axis.set_xlabel(label)
    axes[0].set_ylabel(f"success on trained tasks (mean of {WINDOW} batches)")
    axes[0].set_ylim(-0.03, 1.03)
    axes[1].legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return _saved(figure, out / "learning.png")


def _forgetting(figures: dict[str, Any], out: Path) -> Path | None:
    """Rise in perplexity against success, a point a training seed."""
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6.5, 4.5))
    drawn = False
    for number, (name, arm) in enumerate(figures["arms"].items()):
        points = [
            (arm["trained"]["by_seed"][str(seed)], 100 * kept["rise"])
            for seed, kept in zip(arm["seeds"], arm["retention"], strict=True)
            if kept["rise"] is not None and str(seed) in arm["trained"]["by_seed"]
        ]
        if points:
            drawn = True
            axis.plot(*zip(*points, strict=True), "o", color=f"C{number}", label=name)
    if not drawn:
        plt.close(figure)
        return None
    axis.axhline(0, color="gray", linewidth=0.5)
    axis.set_xlabel("success on unseen seeds of trained tasks")
    axis.set_ylabel("rise in perplexity of general text, %")
    axis.legend(fontsize=8)
    return _saved(figure, out / "forgetting.png")


def _saved(figure: Any, path: Path) -> Path:
    import matplotlib.pyplot as plt

    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path


def _acted(training: dict[str, Any] | None) -> bool:
    return training is not None and any(point["success"] is not None for point in training["curve"])


def _colour(name: str, acting: Sequence[str] | dict[str, Any], number: int) -> str:
    return f"C{list(acting).index(name)}" if name in acting else f"C{len(acting) + number}"


def _smooth(values: Sequence[float]) -> list[float]:
    means = []
    for end in range(1, len(values) + 1):
        window = values[max(0, end - WINDOW) : end]
        means.append(sum(window) / len(window))
    return means
