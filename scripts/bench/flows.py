"""`selfsurf bench flows`: learn flows from one recording, and from three of their variations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import typer
from pydantic import Field

from selfsurf.scripts.report.formats import percent
from selfsurf.scripts.terminal.arguments import Model, Set, make_folder, read_set
from selfsurf.scripts.terminal.command import Arguments, command
from selfsurf.scripts.terminal.results import print_table


class Settings(Arguments):
    """Options of `selfsurf bench flows`."""

    out: Path = Path("runs/flows")
    """Folder of the measurement; an unfinished one is resumed."""
    sites: Literal["known", "new"] = "known"
    """Group of sites: the three on which the method was developed (known), or six others whose goals require a choice
    among similar options (new)."""
    flow: tuple[str, ...] = ()
    """Flow, such as register or hotel; repeatable. All flows of the sites if not given."""
    kind: tuple[str, ...] = ()
    """Kind of measurement: again (from one recording); for known sites also varied (from three recordings of
    variations), for new ones thrice (from three); both if not given."""
    model: Model = "smollm2"
    tries: int = Field(default=20, ge=1)
    """Number of episodes in which each adapter is tried."""
    seed: int = 0
    """Seed of training."""
    live: bool = False
    """Also play the student's own episodes during training."""
    set_: Set = Field(default_factory=list)
    """Training setting, name=value; repeatable."""


@command
def main(settings: Settings) -> int:
    """Record flows, learn each, and try it on other seeds.

    Exit code 0: every flow reached its target; 1: a flow missed its target.
    """
    from selfsurf.scripts.learning.flows import KINDS, measure, names
    from selfsurf.scripts.learning.stages import MeasureError
    from selfsurf.scripts.terminal.console import quiet_libraries

    of, there = names(settings.sites), [*KINDS[settings.sites]]
    flows, kinds = settings.flow or tuple(of), settings.kind or tuple(there)
    for option, given, known in (("--flow", flows, of), ("--kind", kinds, there)):
        if unknown := [name for name in given if name not in known]:
            raise typer.BadParameter(f"{option} {unknown[0]} is unknown; choose from {', '.join(known)}.")
    changes = read_set(settings.set_)
    make_folder(settings.out)
    quiet_libraries()
    try:
        figures = measure(
            settings.sites, flows, kinds, settings.out.resolve(), model=settings.model, seed=settings.seed,
            tries=settings.tries, live=settings.live, changes=changes,
        )  # fmt: skip
    except MeasureError as error:
        raise typer.BadParameter(str(error)) from None
    print(json.dumps(figures, indent=1)) if settings.as_json else show(figures)
    return int(bool(figures["missed"]))


def show(figures: dict[str, Any]) -> None:
    """Print the table, and the missed targets."""
    rows = [
        [
            row["flow"], row["kind"], row["recordings"], f"{row['right']} of {row['actions']}",
            f"{row['solved']} of {row['tries']}", f"{row['success']:.2f} \\[{row['low']:.2f}, {row['high']:.2f}]",
            f"{row['target']:g}", f"{row['minutes']:.1f}", percent(row.get("distilled")),
        ]
        for row in figures["rows"]
    ]  # fmt: skip
    heads = (
        "flow", "kind", "recordings", "recorded actions done", "solved", "success", "wanted", "minutes", "distilled"
    )  # fmt: skip
    print_table(heads, rows, f"{figures['model']}: flows learned from recordings", texts=("kind",), width=120)
    for row in figures["rows"]:
        if row["choices"]:
            print(f"{row['flow']}, {row['kind']}: {'; '.join(row['choices'])}.")
    for row in figures["rows"]:
        if row["missed"]:
            print(f"Missed: {row['flow']}, {row['kind']}: {row['missed']}.")
