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
    """Success over steps and minutes: of the training episodes, sampled (thin), and of snapshots, greedy (points)."""
    import matplotlib.pyplot as plt

    arms = {name: arm for name, arm in figures["arms"].items() if any(arm["training"])}
    if not arms:
        return None
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.5), sharey=True)
    for axis, key, label, scale in ((axes[0], "step", "optimizer step", 1), (axes[1], "seconds", "minutes", 60)):
        for number, (name, arm) in enumerate(arms.items()):
            colour = f"C{number}"
            for training, snapshots in zip(arm["training"], arm["snapshots"], strict=True):
                curve = training["curve"] if training else []
                judged = [point for point in curve if point["success"] is not None]
                if judged:
                    smooth = _smooth([point["success"] for point in judged])
                    axis.plot([point[key] / scale for point in judged], smooth, color=colour, alpha=0.4, linewidth=1)
                at = {point["step"]: point[key] / scale for point in curve}
                known = [(at[one["step"]], one["success"]) for one in snapshots if one["step"] in at]
                if known:
                    axis.plot(*zip(*known, strict=True), "o-", color=colour, markersize=4)
            if arm["trained"]["success"] is not None:
                level = arm["trained"]["success"]
                axis.axhline(level, color=colour, linestyle="--", linewidth=1, label=f"{name}: {level:.2f} in the end")
        for name in ("base", "demonstrated"):
            level = figures["arms"].get(name, {}).get("trained", {}).get("success")
            if level is not None:
                axis.axhline(level, color="gray", linestyle=":", linewidth=1, label=f"{name}: {level:.2f}")
        axis.set_xlabel(label)
    axes[0].set_ylabel(f"success on trained tasks\n(thin: training, {WINDOW} batches; points: validation)")
    axes[0].set_ylim(-0.03, 1.03)
    axes[1].legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return _saved(figure, out / "learning.png")


def _forgetting(figures: dict[str, Any], out: Path) -> Path | None:
    """Rise in perplexity against success: the way there (points of snapshots) and the end (a large one a seed)."""
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6.5, 4.5))
    for number, (name, arm) in enumerate(figures["arms"].items()):
        colour = f"C{number}"
        for snapshots in arm["snapshots"]:
            way = [(one["success"], 100 * one["rise"]) for one in snapshots if one["rise"] is not None]
            if way:
                axis.plot(*zip(*way, strict=True), ".-", color=colour, alpha=0.5, linewidth=1)
        ends = [
            (arm["trained"]["by_seed"][str(seed)], 100 * kept["rise"])
            for seed, kept in zip(arm["seeds"], arm["retention"], strict=True)
            if kept["rise"] is not None and str(seed) in arm["trained"]["by_seed"]
        ]
        if ends:
            axis.plot(*zip(*ends, strict=True), "o", color=colour, label=name)
    if not axis.lines:
        plt.close(figure)
        return None
    axis.axhline(0, color="gray", linewidth=0.5)
    axis.set_xlabel("success on trained tasks (points on the way: validation seeds)")
    axis.set_ylabel("rise in perplexity of general text, %")
    if axis.get_legend_handles_labels()[1]:
        axis.legend(fontsize=8)
    return _saved(figure, out / "forgetting.png")


def _saved(figure: Any, path: Path) -> Path:
    import matplotlib.pyplot as plt

    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path


def _smooth(values: Sequence[float]) -> list[float]:
    means = []
    for end in range(1, len(values) + 1):
        window = values[max(0, end - WINDOW) : end]
        means.append(sum(window) / len(window))
    return means
