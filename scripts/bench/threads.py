"""`selfsurf bench threads`: time torch programs, alone and concurrent, by how long their threads spin."""

from __future__ import annotations

from typing import Any

import typer
from pydantic import Field

from selfsurf.scripts.terminal.arguments import Figures
from selfsurf.scripts.terminal.command import Arguments, command
from selfsurf.scripts.terminal.results import finish, print_table


class Settings(Arguments):
    """Options of `selfsurf bench threads`."""

    setting: tuple[str, ...] = ("300000", "30000", "1000", "passive", "selfsurf")
    """Setting: a value of GOMP_SPINCOUNT (300000 is the library's default), passive, or selfsurf for this package's
    own. Repeatable."""
    rounds: int = Field(default=3, ge=1)
    """Rounds, in which the settings take turns."""
    steps: int = Field(default=0, ge=0)
    """Optimizer steps of trainings to time as well: alone, two at once, and beside eight environments; 0 for none."""
    alone: bool = False
    """Skip the concurrent timings, to spend more rounds on small differences."""
    out: Figures = None
    """Folder for threads.json; by default no file is written."""


@command
def main(settings: Settings) -> int:
    """Time torch programs, alone and concurrent. Exit code 0: all were measured."""
    from selfsurf.scripts.machine.processes import ending_on_signal
    from selfsurf.scripts.training.threads import SETTINGS, measure

    unknown = [name for name in settings.setting if name not in SETTINGS]
    if unknown:
        raise typer.BadParameter(f"--setting must be one of {', '.join(SETTINGS)}, not {', '.join(unknown)}.")
    if settings.steps == 1:
        raise typer.BadParameter("--steps must be 0 or at least 2, because the first step is not counted.")
    with ending_on_signal():
        names = list(dict.fromkeys(settings.setting))
        figures = measure(names, rounds=settings.rounds, steps=settings.steps, alone=settings.alone)
    return finish(figures, show, as_json=settings.as_json, out=settings.out, name="threads")


def show(figures: dict[str, Any]) -> None:
    """Print the figures as a table."""
    from selfsurf.scripts.training.threads import medians

    found = medians(figures)
    works = list(next(iter(found.values())))
    rows = [[name, *(f"{kinds[work]:.1f}" for work in works)] for name, kinds in found.items()]
    print_table(("GOMP_SPINCOUNT", *works), rows, f"Seconds, {figures['cores']} cores")
    print(f"Each time is for {figures['passes']} passes of a network, or for one step of a training.")
