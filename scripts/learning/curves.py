"""Plots of the demonstration and of the comparison of training methods, as PNG files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from selfsurf.scripts.report.plot import drawn

WINDOW = 5
"""Number of batches averaged for a line of the success plot."""


def draw(figures: dict[str, Any], out: Path) -> list[Path]:
    """Plot success over steps and time, and forgetting against learning; return the paths of the files."""
    return [path for path in (_learning(figures, out), _forgetting(figures, out)) if path]


def _learning(figures: dict[str, Any], out: Path) -> Path | None:
    """Plot success over steps and minutes, of sampled training episodes (thin) and of greedy snapshots (points)."""
    arms = {name: arm for name, arm in figures["arms"].items() if any(arm["training"])}
    if not arms:
        return None
    path = out / "learning.png"
    with drawn(path, (11, 4.5), columns=2, sharey=True) as axes:
        for axis, key, label, scale in ((axes[0], "step", "optimizer step", 1), (axes[1], "seconds", "minutes", 60)):
            for number, (name, arm) in enumerate(arms.items()):
                for training, snapshots in zip(arm["training"], arm["snapshots"], strict=True):
                    _way(axis, training["curve"] if training else [], snapshots, key, scale, f"C{number}")
                _level(axis, arm["trained"]["success"], f"{name}: {{:.2f}} at the end", f"C{number}", "--")
            for name in ("base", "demonstrated"):
                level = figures["arms"].get(name, {}).get("trained", {}).get("success")
                _level(axis, level, f"{name}: {{:.2f}}", "gray", ":")
            axis.set_xlabel(label)
        axes[0].set_ylabel(f"success on trained tasks\n(thin: training, {WINDOW} batches; points: validation)")
        axes[0].set_ylim(-0.03, 1.03)
        axes[1].legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return path


def _way(axis: Any, curve: Any, snapshots: Any, key: str, scale: float, colour: str) -> None:
    judged = [point for point in curve if point["success"] is not None]
    if judged:
        smooth = _smooth([point["success"] for point in judged])
        axis.plot([point[key] / scale for point in judged], smooth, color=colour, alpha=0.4, linewidth=1)
    at = {point["step"]: point[key] / scale for point in curve}
    known = [(at[one["step"]], one["success"]) for one in snapshots if one["step"] in at]
    if known:
        axis.plot(*zip(*known, strict=True), "o-", color=colour, markersize=4)


def _level(axis: Any, level: float | None, label: str, colour: str, style: str) -> None:
    if level is not None:
        axis.axhline(level, color=colour, linestyle=style, linewidth=1, label=label.format(level))


def _forgetting(figures: dict[str, Any], out: Path) -> Path | None:
    """Plot the rise of perplexity against success, of snapshots (small points) and of each final adapter (large)."""
    lines: list[tuple[list[tuple[float, float]], str, dict[str, Any]]] = []
    for number, (name, arm) in enumerate(figures["arms"].items()):
        colour = f"C{number}"
        for snapshots in arm["snapshots"]:
            way = [(one["success"], 100 * one["rise"]) for one in snapshots if one["rise"] is not None]
            lines.append((way, ".-", {"color": colour, "alpha": 0.5, "linewidth": 1}))
        ends = [
            (arm["trained"]["by_seed"][str(seed)], 100 * kept["rise"])
            for seed, kept in zip(arm["seeds"], arm["retention"], strict=True)
            if kept["rise"] is not None and str(seed) in arm["trained"]["by_seed"]
        ]
        lines.append((ends, "o", {"color": colour, "label": name}))
    if not any(points for points, _, _ in lines):
        return None
    path = out / "forgetting.png"
    with drawn(path, (6.5, 4.5)) as axis:
        for points, style, options in lines:
            if points:
                axis.plot(*zip(*points, strict=True), style, **options)
        axis.axhline(0, color="gray", linewidth=0.5)
        axis.set_xlabel("success on trained tasks (intermediate points: validation seeds)")
        axis.set_ylabel("rise in perplexity of general text, %")
        if axis.get_legend_handles_labels()[1]:
            axis.legend(fontsize=8)
    return path


def draw_demonstration(out: Path, arms: dict[str, Any]) -> Path:
    """Plot the demonstration's success and divergence over the training steps; return the PNG's path."""
    lines = (out / "training" / "metrics.jsonl").read_text(encoding="utf8").splitlines()
    rows = [row for row in map(json.loads, lines) if "episodes/success" in row]
    steps, success = [row["step"] for row in rows], [row["episodes/success"] for row in rows]
    path = out / "learning_curve.png"
    with drawn(path, (7, 6), rows=2, sharex=True) as (top, bottom):
        top.plot(steps, success, ".", color="tab:blue", alpha=0.4, label="sampled episodes of a batch")
        top.plot(steps, _smooth(success), color="tab:blue", label=f"mean of {WINDOW} batches")
        for arm, colour in zip(
            ("base, constrained", "base, shown the answer", "trained"), ("gray", "green", "red"), strict=True
        ):
            level = arms[arm]["groups"]["trained"]["success"]
            _level(top, level, f"{arm}, greedy, unseen seeds: {{:.2f}}", f"tab:{colour}", "--")
        top.set_ylabel("success on trained tasks")
        top.set_ylim(-0.03, 1.03)
        # above the points, so that it doesn't hide them
        top.legend(fontsize=7, loc="lower left", bbox_to_anchor=(0, 1.0), ncols=2)
        bottom.plot(steps, [row["loss"] for row in rows], color="tab:orange")
        bottom.set_ylabel("divergence (nats per token)")
        bottom.set_xlabel("optimizer step")
        bottom.set_yscale("log")
    return path


def _smooth(values: Sequence[float]) -> list[float]:
    means = []
    for end in range(1, len(values) + 1):
        window = values[max(0, end - WINDOW) : end]
        means.append(sum(window) / len(window))
    return means
