"""`selfsurf bench rollouts`: episodes per minute with workers against one process, and overlap with training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer
from pydantic import Field

from selfsurf.scripts.terminal.arguments import Model, Set, read_counts, read_set
from selfsurf.scripts.terminal.command import Arguments, command
from selfsurf.scripts.terminal.results import finish, met, print_table

GROWTH = {
    "browsers": "browsers", "policies": "policy workers", "episodes_per_minute": "episodes/min",
    "saturated": "saturated", "cpus": "processors", "memory_gb": "GB", "call_mb_per_second": "calls MB/s",
    "result_mb_per_second": "results MB/s", "weight_mb_per_second": "weights MB/s",
}  # fmt: skip
"""Columns of the table of extrapolated figures."""


class Settings(Arguments):
    """Options of `selfsurf bench rollouts`."""

    model: Model = "smollm2"
    workers: str = "1,2,4"
    """Numbers of browser workers, separated by commas."""
    episodes: int = Field(default=40, ge=1)
    """Episodes per batch."""
    rounds: int = Field(default=3, ge=1)
    """Batches per configuration, which take turns."""
    contexts: int = Field(default=8, ge=1)
    """Concurrent episodes of a worker."""
    steps: int = Field(default=8, ge=0)
    """Optimizer steps of each training; 0 to skip training."""
    scale: int | None = Field(default=None, ge=1)
    """Number of browsers to extrapolate to, instead of showing measurements."""
    figures: Path | None = None
    """JSON of an earlier measurement, with --scale; nothing is measured then."""
    set_: Set = Field(default_factory=list)
    """Figure to change, name=value, with --scale."""
    cpus: float = Field(default=1.0, ge=0.01)
    """CPUs of a browser worker, with --scale."""
    policies: int | None = Field(default=None, ge=1)
    """Number of policy workers, with --scale; by default as many as necessary."""
    version_seconds: float = Field(default=10.0, ge=0.001)
    """Seconds between two versions of the weights, with --scale."""


@command
def main(settings: Settings) -> int:
    """Measure rollouts with workers against one process, and how far generation and training overlap."""
    from selfsurf.scripts.terminal.console import quiet_libraries

    for option, given in (("--figures", settings.figures), ("--set", settings.set_)):
        if given and settings.scale is None:
            raise typer.BadParameter(f"{option} is used only with --scale, which calculates instead of measuring.")
    quiet_libraries()
    if settings.scale is None:
        return finish(_measured(settings), show, as_json=settings.as_json)
    points = _growth(settings, settings.scale)
    if settings.as_json:
        print(json.dumps(points, indent=1))
    else:
        print_table(
            tuple(GROWTH.values()), [[point[name] for name in GROWTH] for point in points], "Calculated, not run"
        )
    return 0


def _measured(settings: Settings) -> dict[str, Any]:
    from selfsurf.scripts.machine.processes import ending_on_signal
    from selfsurf.scripts.rollouts.speed import measure

    with ending_on_signal():
        return measure(
            settings.model, read_counts(settings.workers, "--workers"), episodes=settings.episodes,
            rounds=settings.rounds, contexts=settings.contexts, steps=0 if settings.scale else settings.steps,
        )  # fmt: skip


def _growth(settings: Settings, browsers: int) -> list[dict[str, Any]]:
    """Extrapolate from the figures of a file, of `--set`, or else of a measurement made now."""
    from selfsurf.scripts.rollouts.speed import figures_of
    from selfsurf.sdft.rollouts.scale import as_json, growth

    changes = read_set(settings.set_)
    found = None if settings.figures or changes else _measured(settings)["figures"]
    try:
        given = figures_of(settings.figures, changes, found)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return as_json(
        growth(
            given, browsers, contexts=settings.contexts, cpus=settings.cpus, policies=settings.policies,
            version_seconds=settings.version_seconds,
        )
    )  # fmt: skip


def show(figures: dict[str, Any]) -> None:
    """Print the figures as tables."""
    print_table(
        ("", "episodes/min", "ratio to one process", "rounds"),
        [
            [
                "one process" if name == "process" else f"{name} workers", f"{rate['episodes_per_minute']:.1f}",
                f"{rate['against_process']:.2f}", ", ".join(f"{value:.1f}" for value in rate["rounds"]),
            ]
            for name, rate in figures["rates"].items()
        ],
        f"{figures['model']}, {figures['dtype']}, {figures['cpus']} processors",
    )  # fmt: skip
    if figures["overlap"] is not None:
        _show_overlap(figures["overlap"], figures["target"])


def _show_overlap(overlap: dict[str, Any], target: float) -> None:
    for name in ("in turns", "ahead"):
        one = overlap[name]
        print(
            f"{name}: generation {one['generation_seconds']:.2f} s, training {one['training_seconds']:.2f} s, step "
            f"{one['step_seconds']:.2f} s, trainer idle {one['trainer_idle_seconds']:.2f} s"
        )
    print(f"Seconds per step, ahead / in turns: {overlap['step_ratio']:.2f}.")
    share = overlap["ahead"]["hidden"]
    print(f"Overlap: {share:.0%} of the shorter phase ({met(share, target, write='{:.0%}')})")
