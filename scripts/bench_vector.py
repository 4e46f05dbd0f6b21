"""`selfsurf bench vector`: steps per second and memory against the number of environments in one process."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from selfsurf.scripts.machine.processes import kill_tree
from selfsurf.scripts.terminal.console import progress

TARGETS = {"vector(8) / single": 1.7, "vector(8) / bare loop": 0.6, "MB per added environment": 30.0}

_LINES = (
    ("vector", "vector environment", "o-"),
    ("loop", "bare asyncio loop", "x--"),
    ("single", "single environment", ":"),
)

COMPARED = 8
"""Environments at which the targets are set."""

POINT_SECONDS = 120.0
"""The longest that a point may take, and for every environment in it so much more:"""

ENV_SECONDS = 5.0


def measure(task: str, counts: list[int], *, modes: list[bool], rounds: int, seconds: float) -> dict[str, Any]:
    """Measure every number of environments, each in a process of its own.

    Args:
        task: a MiniWoB++ task whose first checkboxes can be clicked without ending the episode.
        counts: numbers of environments.
        modes: with screenshots (True), without, or one after the other.
        rounds: how often vector, bare loop and single environment take turns at each.
        seconds: how long each of them works in a round.

    Returns:
        `points` (`scripts.environment.vector_point.main`), `ratios` by mode with their targets, `errors`.
    """
    points: list[dict[str, Any]] = []
    errors: dict[str, str] = {}
    with progress("Points", len(counts) * len(modes)) as update:
        for screenshot in modes:
            for count in counts:
                request = {"task": task, "count": count, "screenshot": screenshot, "rounds": rounds, "seconds": seconds}
                try:
                    points.append(_point(request, POINT_SECONDS + count * ENV_SECONDS + 3 * rounds * seconds))
                except PointError as error:
                    errors[f"{count} environments, {_mode(screenshot)}"] = str(error)
                update(len(points) + len(errors))
    ratios = {_mode(mode): _ratios([p for p in points if p["screenshot"] is mode]) for mode in modes}
    return {"task": task, "points": points, "ratios": ratios, "targets": TARGETS, "errors": errors}


class PointError(Exception):
    """A point could not be measured; the message says why."""


def _point(request: dict[str, Any], timeout: float) -> dict[str, Any]:
    command = [sys.executable, "-m", "selfsurf.scripts.environment.vector_point", json.dumps(request)]
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        output, said = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise PointError(f"not done within {timeout:.0f} s") from None
    finally:
        _end(process)
    if process.returncode:
        raise PointError((said.strip().splitlines() or [f"exit code {process.returncode}"])[-1])
    point: dict[str, Any] = json.loads(output)
    return point


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        kill_tree(process.pid)
        process.wait(10)


def _ratios(points: list[dict[str, Any]]) -> dict[str, float | None]:
    """Return the figures that have targets; None for those that these points don't give."""
    at = next((point for point in points if point["envs"] == COMPARED), None)
    known = [point for point in points if point["memory"] is not None]
    first, last = (min(known, key=_envs), max(known, key=_envs)) if known else (None, None)
    grown = None
    if first and last and last["envs"] > first["envs"]:
        grown = round((last["memory"] - first["memory"]) / (last["envs"] - first["envs"]), 1)
    return {
        "vector(8) / single": round(at["vector"] / at["single"], 2) if at else None,
        "vector(8) / bare loop": round(at["vector"] / at["loop"], 2) if at else None,
        "MB per added environment": grown,
    }


def _envs(point: dict[str, Any]) -> int:
    return int(point["envs"])


def _mode(screenshot: bool) -> str:
    return "with screenshots" if screenshot else "without screenshots"


def show(figures: dict[str, Any]) -> None:
    """Print the figures as tables."""
    console = Console()
    for mode, ratios in figures["ratios"].items():
        points = [point for point in figures["points"] if _mode(point["screenshot"]) == mode]
        table = Table(title=f"MiniWoB/{figures['task']}-v0, {mode}: steps per second, all environments together")
        for column in ("environments", "vector", "bare loop", "single", "memory (MB)"):
            table.add_column(column, justify="right")
        for point in points:
            used = "not measured" if point["memory"] is None else f"{point['memory']:.0f}"
            speeds = [f"{point[name]:.1f}" for name in ("vector", "loop", "single")]
            table.add_row(str(point["envs"]), *speeds, used)
        console.print(table)
        for name, value in ratios.items():
            bound = "at most" if name.startswith("MB") else "at least"
            if value is None:
                print(f"{name}: not measured")
                continue
            met = value <= TARGETS[name] if name.startswith("MB") else value >= TARGETS[name]
            print(f"{name}: {value:g} (target: {bound} {TARGETS[name]:g}, {'met' if met else 'missed'})")
        for point in points:
            _show_parts(point)
    for name, error in figures["errors"].items():
        print(f"Not measured: {name}: {error}")


def _show_parts(point: dict[str, Any]) -> None:
    phases = ", ".join(f"{phase} {value:g}" for phase, value in point["phases"].items())
    print(f"{point['envs']} environments, ms of a step: {phases}")
    if point["cpu"]:
        parts = ", ".join(f"{kind} {value:g}" for kind, value in point["cpu"].items())
        print(f"{point['envs']} environments, ms of processor time for each environment's step: {parts}")


def write(figures: dict[str, Any], out: Path) -> list[Path]:
    """Write `vector.json` and the curve `vector.png` into a folder, and return their paths."""
    out.mkdir(parents=True, exist_ok=True)
    data, curve = out / "vector.json", out / "vector.png"
    made = {**figures, "made": time.strftime("%Y-%m-%d")}
    data.write_text(json.dumps(made, indent=1) + "\n", encoding="utf8")
    draw(figures, curve)
    return [data, curve]


def draw(figures: dict[str, Any], path: Path) -> None:
    """Draw steps per second and memory against the number of environments."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import ScalarFormatter

    figure, (top, bottom) = plt.subplots(2, 1, figsize=(7, 7), sharex=True)
    for mode, colour in (("with screenshots", "tab:blue"), ("without screenshots", "tab:orange")):
        points = [point for point in figures["points"] if _mode(point["screenshot"]) == mode]
        counts = [point["envs"] for point in points]
        if not points:
            continue
        for name, label, style in _LINES:
            top.plot(counts, [point[name] for point in points], style, color=colour, label=f"{label}, {mode}")
        known = [point for point in points if point["memory"] is not None]
        bottom.plot([p["envs"] for p in known], [p["memory"] for p in known], "o-", color=colour, label=mode)
    top.set_ylabel("steps per second, together")
    top.set_ylim(bottom=0)
    top.legend(fontsize=7)
    bottom.set_ylabel("memory (MB), browser and Python")
    bottom.set_ylim(bottom=0)
    bottom.set_xlabel("environments in one process")
    bottom.set_xscale("log", base=2)
    bottom.set_xticks(sorted({point["envs"] for point in figures["points"]}))
    bottom.xaxis.set_major_formatter(ScalarFormatter())
    if bottom.lines:
        bottom.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
