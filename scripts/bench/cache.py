"""`selfsurf bench cache`: replay flows from the action cache on changed copies of the scenarios' sites."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import Field

from selfsurf.scripts.terminal.arguments import make_folder
from selfsurf.scripts.terminal.command import Arguments, command
from selfsurf.scripts.terminal.results import print_table


class Settings(Arguments):
    """Options of `selfsurf bench cache`."""

    out: Path = Path("runs/cache")
    """New folder for episodes and figures."""
    scenario: tuple[str, ...] = ()
    """Scenario, such as register; repeatable. All scenarios with a completely cacheable flow if not given."""
    change: tuple[str, ...] = ()
    """Change of the site, such as moved; same for an unchanged copy. Repeatable; all but same if not given."""
    seeds: int = Field(default=5, ge=1)
    """Number of seeds, each with another copy of the site."""
    model: Annotated[str, typer.Option("--model", "--model-id")] = ""
    """Model to time beside the cache, such as smollm2; none if not given."""


@command
def main(settings: Settings) -> int:
    """Learn each scenario's flow from its oracle, and replay it on changed copies of its site.

    Exit code 0: no action was wrong, and no flow failed or ended as env_error; 1: otherwise.
    """
    from selfsurf.scripts.agents.healing import CHANGES, SCENARIOS, measure
    from selfsurf.scripts.terminal.console import quiet_libraries

    scenarios, changes = settings.scenario or SCENARIOS, settings.change or CHANGES[1:]
    for option, given, known in (("--scenario", scenarios, SCENARIOS), ("--change", changes, CHANGES)):
        if unknown := [name for name in given if name not in known]:
            raise typer.BadParameter(f"{option} {unknown[0]} is unknown; choose from {', '.join(known)}.")
    if settings.out.exists() and any(settings.out.iterdir()):
        raise typer.BadParameter(f"--out: {settings.out} is not empty; give a new folder.")
    make_folder(settings.out)
    quiet_libraries()
    figures = measure(
        scenarios, changes, range(settings.seeds), settings.out.resolve(), model=settings.model,
        told=lambda text: typer.echo(text, err=True),
    )  # fmt: skip
    print(json.dumps(figures, indent=1)) if settings.as_json else show(figures)
    return int(any(row["wrong"] or row["failed"] or row["env_error"] for row in figures["rows"]))


def show(figures: dict[str, Any]) -> None:
    """Print the table, and the model's time."""
    rows = [
        [
            row["change"], row["episodes"], row["solved"], row["healed"], row["refused"], row["failed"],
            row["env_error"], row["wrong"], f"{row['decision_ms']:.0f}",
            "" if row["seconds"] is None else f"{row['seconds']:.1f}",
        ]
        for row in figures["rows"]
    ]  # fmt: skip
    heads = (
        "change",
        "episodes",
        "solved",
        "of these healed",
        "refused",
        "failed",
        "env_error",
        "wrong actions",
        "ms per action",
        "s per flow",
    )
    print_table(heads, rows, "Flows played from the cache, without a model", texts=("change",), width=120)
    if figures["model"]:
        print(f"{figures['model']['model']}: {figures['model']['decision_ms']:.0f} ms per action")
