"""`selfsurf bench throughput`: whole episodes per minute against BrowserGym on the same tasks."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from pydantic import Field

from selfsurf.scripts.terminal.command import Arguments, command
from selfsurf.scripts.terminal.results import finish, print_errors, print_table


class Settings(Arguments):
    """Options of `selfsurf bench throughput`."""

    rounds: int = Field(default=3, ge=1)
    """Rounds, in which the contenders take turns."""
    seeds: int = Field(default=20, ge=1)
    """Episodes of each task per round of selfsurf."""
    workers: int = Field(default=4, ge=1)
    """Number of concurrent episodes."""
    peers: Annotated[bool, typer.Option("--peers")] = False
    """Measure BrowserGym as well, installed in the cache on first use."""


@command
def main(settings: Settings) -> int:
    """Time whole episodes of five MiniWoB++ tasks, solved by the oracle. Exit code 0: all were measured."""
    from selfsurf.scripts.environment.episodes import measure
    from selfsurf.scripts.machine.processes import ending_on_signal

    with ending_on_signal():
        figures = measure(settings.rounds, settings.seeds, settings.workers, peers=settings.peers)
    return finish(figures, show, as_json=settings.as_json)


def show(figures: dict[str, Any]) -> None:
    """Print the figures as a table."""
    ratios = figures["work"]["ratios"]
    rows = [
        [
            name, f"{ms:.0f}", f"{figures['per_minute'][name]:.0f}", ratios.get(name, {}).get("ratio", ""),
            "{min}-{max}".format(**ratios[name]) if name in ratios else "",
        ]
        for name, ms in figures["work"]["ms"].items()
    ]  # fmt: skip
    print_table(("", "ms per episode", "episodes per minute", "ratio to ours", "range of rounds"), rows)
    print_errors(figures)
