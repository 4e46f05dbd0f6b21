"""`selfsurf bench loop`: one improvement cycle, from failures to an adapter that fails less often."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer
from pydantic import Field

from selfsurf.scripts.terminal.arguments import Model, Set, make_folder, read_set
from selfsurf.scripts.terminal.command import Arguments, command
from selfsurf.scripts.terminal.results import print_table


class Settings(Arguments):
    """Options of `selfsurf bench loop`."""

    out: Path = Path("runs/loop")
    """Folder of the measurement; an unfinished one is resumed."""
    scenario: tuple[str, ...] = ("login", "cookies", "slow", "two-tabs")
    """Scenario that the model fails; repeatable."""
    model: Model = "smollm2"
    runs: int = Field(default=4, ge=1)
    """Runs of each scenario, whose failures are learned from."""
    tries: int = Field(default=40, ge=1)
    """Tries of each scenario before and after training, on unused seeds."""
    seed: int = 0
    """Seed of training."""
    set_: Set = Field(default_factory=list)
    """Training setting, name=value; repeatable."""


@command
def main(settings: Settings) -> int:
    """Let a model fail, train it on later solutions, and try it on unused seeds.

    Exit code 0: the success rate rose, and its interval excludes chance; 1: otherwise.
    """
    from selfsurf.scripts.learning.loop import measure
    from selfsurf.scripts.learning.stages import MeasureError
    from selfsurf.scripts.terminal.console import quiet_libraries
    from selfsurf.tasks.scenarios import names

    if unknown := [name for name in settings.scenario if name not in names()]:
        raise typer.BadParameter(f"--scenario {unknown[0]} is unknown; choose from {', '.join(names())}.")
    changes = read_set(settings.set_)
    make_folder(settings.out)
    quiet_libraries()
    try:
        figures = measure(
            settings.scenario, settings.out.resolve(), model=settings.model, runs=settings.runs, tries=settings.tries,
            seed=settings.seed, changes=changes,
        )  # fmt: skip
    except MeasureError as error:
        raise typer.BadParameter(str(error)) from None
    print(json.dumps(figures, indent=1)) if settings.as_json else show(figures)
    return int(figures["low"] <= 0)


def show(figures: dict[str, Any]) -> None:
    """Print the table, and the gain."""
    rows = [
        [row["scenario"], f"{row['failed']} of {figures['runs']}", *(_share(*row[at]) for at in _AT)]
        for row in figures["rows"]
    ]
    rows.append(["all", "", *(_share(*figures["total"][at]) for at in _AT)])
    print_table(
        ("scenario", "failed", *_AT), rows, f"{figures['model']}: success before and after one turn of the loop"
    )
    gain = f"{figures['gain']:+.2f} [{figures['low']:+.2f}, {figures['high']:+.2f}]"
    print(f"Gain {gain} in {figures['minutes']:.1f} minutes of training.")


def _share(solved: int, of: int) -> str:
    return f"{solved / of:.2f} of {of}" if of else "none judged"


_AT = ("before", "after")
