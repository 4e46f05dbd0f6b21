"""`selfsurf bench vector`: steps per second and memory by the number of environments in one process."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import Field

from selfsurf.scripts.terminal.arguments import Figures, read_counts
from selfsurf.scripts.terminal.command import Arguments, command
from selfsurf.scripts.terminal.results import finish, met, print_errors, print_table

_LINES = (
    ("vector", "vector environment", "o-"),
    ("loop", "bare asyncio loop", "x--"),
    ("single", "single environment", ":"),
)


class Settings(Arguments):
    """Options of `selfsurf bench vector`."""

    envs: str = "1,2,4,8,16,32,64"
    """Numbers of environments, separated by commas."""
    out: Figures = None
    """Folder for vector.json and the plot vector.png; by default no files are written."""
    screenshot: bool = True
    """Measure with and without screenshots; if off, only without."""
    rounds: int = Field(default=3, ge=1)
    """Rounds per number of environments, in which the contenders take turns."""
    seconds: Annotated[float, typer.Option(min=0.1)] = 2.0
    """Seconds that each contender works in a round."""
    task: str = "click-checkboxes-large"
    """MiniWoB++ task whose first checkboxes can be clicked any number of times."""
    neighbours: bool = False
    """Also measure seven environments beside an eighth that loops, opens dialogs, blocks on layout, or crashes."""


@command
def main(settings: Settings) -> int:
    """Measure the speed and memory of many environments in one process. Exit code 0: all were measured."""
    from selfsurf.scripts.environment import neighbours
    from selfsurf.scripts.environment.vector import measure
    from selfsurf.scripts.machine.processes import ending_on_signal

    counts = read_counts(settings.envs, "--envs")
    modes = [True, False] if settings.screenshot else [False]
    with ending_on_signal():
        figures = measure(settings.task, counts, modes=modes, rounds=settings.rounds, seconds=settings.seconds)
        if settings.neighbours:
            figures["neighbours"] = neighbours.measure(settings.task, rounds=settings.rounds, seconds=settings.seconds)
    return finish(figures, show, as_json=settings.as_json, out=settings.out, name="vector", draw=draw)


def show(figures: dict[str, Any]) -> None:
    """Print the figures as tables."""
    targets = figures["targets"]
    for mode, ratios in figures["ratios"].items():
        points = _points(figures, mode)
        print_table(
            ("environments", "vector", "bare loop", "single", "memory (MB)"),
            [
                [p["envs"], *(f"{p[name]:.1f}" for name in ("vector", "loop", "single")),
                 "not measured" if p["memory"] is None else f"{p['memory']:.0f}"]
                for p in points
            ],
            f"MiniWoB/{figures['task']}-v0, {mode}: steps per second of all environments together",
        )  # fmt: skip
        for name, value in ratios.items():
            text = "" if value is None else f"{value:g} ({met(value, targets[name], at_most=name.startswith('MB'))})"
            print(f"{name}: {text or 'not measured'}")
        for point in points:
            _show_parts(point)
    if beside := figures.get("neighbours"):
        kept, target = beside["kept"], beside["target"]
        print_table(
            ("eighth environment", "steps/s", "ratio to a working eighth"),
            [
                [case, f"{steps:g}", f"{kept[case]:g} ({met(kept[case], target)})" if case in kept else ""]
                for case, steps in beside["steps"].items()
            ],
            "Steps per second of seven environments, by the state of an eighth",
        )
    print_errors(figures)


def _points(figures: dict[str, Any], mode: str) -> list[dict[str, Any]]:
    return [point for point in figures["points"] if point["screenshot"] is (mode == "with screenshots")]


def _show_parts(point: dict[str, Any]) -> None:
    for what, parts in (("a step", point["phases"]), ("processor time per environment step", point["cpu"])):
        if parts:
            text = ", ".join(f"{name} {value:g}" for name, value in parts.items())
            print(f"{point['envs']} environments, ms of {what}: {text}")


def draw(figures: dict[str, Any], path: Path) -> None:
    """Plot steps per second and memory against the number of environments."""
    from selfsurf.scripts.report.plot import against_environments, drawn

    with drawn(path, rows=2, sharex=True) as (top, bottom):
        for mode, colour in (("with screenshots", "tab:blue"), ("without screenshots", "tab:orange")):
            points = _points(figures, mode)
            for name, label, style in _LINES if points else ():
                known = [(point["envs"], point[name]) for point in points]
                top.plot(*zip(*known, strict=True), style, color=colour, label=f"{label}, {mode}")
            if known := [(point["envs"], point["memory"]) for point in points if point["memory"] is not None]:
                bottom.plot(*zip(*known, strict=True), "o-", color=colour, label=mode)
        counts = sorted({point["envs"] for point in figures["points"]})
        against_environments(
            (top, bottom), counts, ("steps per second, all environments", "memory (MB), browser and Python")
        )
