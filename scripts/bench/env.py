"""`selfsurf bench env`: time steps, resets and observations against their raw limit and, optionally, peers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from selfsurf.scripts.terminal.command import Arguments, command
from selfsurf.scripts.terminal.results import finish, print_errors, print_table


class Settings(Arguments):
    """Options of `selfsurf bench env`."""

    rounds: int | None = Field(default=None, ge=1)
    """Rounds, in which the contenders take turns; 20 by default, 5 with --peers."""
    peers: bool = False
    """Measure BrowserGym and browser-use as well, installed in the cache on first use."""
    task: str = "click-checkboxes-large"
    """MiniWoB++ task whose first checkboxes can be clicked any number of times."""
    docs: Path | None = None
    """Folder of the Python documentation as HTML; downloaded with apt by default."""


@command
def main(settings: Settings) -> int:
    """Time steps, resets and observations against the raw work and the peers. Exit code 0: all were measured."""
    from selfsurf.scripts.environment.steps import measure
    from selfsurf.scripts.machine.processes import ending_on_signal

    with ending_on_signal():
        rounds = settings.rounds or (5 if settings.peers else 20)
        figures = measure(settings.task, rounds, peers=settings.peers, docs=settings.docs)
    return finish(figures, show, as_json=settings.as_json)


def show(figures: dict[str, Any]) -> None:
    """Print the figures as a table."""
    rows: list[list[str]] = []
    for work, summary in figures["works"].items():
        for index, (name, ms) in enumerate(summary["ms"].items()):
            cells = _cells(summary["ratios"][name]) if name in summary["ratios"] else []
            rows.append([work if index == 0 else "", name, f"{ms:,.1f}", *cells])
        rows.append([])
    print_table(
        ("work", "contender", "ms", "ratio", "range of rounds", "target", ""), rows,
        f"Medians of {figures['rounds']} rounds; steps and resets of MiniWoB/{figures['task']}-v0",
        texts=("contender", "target", ""), width=110,
    )  # fmt: skip
    print("Ratios: for the raw limit, our time / its time; for a peer, its time / our time.")
    print("Phases of a step: " + ", ".join(f"{name} {value:.1f} ms" for name, value in figures["phases"].items()))
    for work, characters in figures["characters"].items():
        print(f"Characters, {work}: " + ", ".join(f"{name} {count:,}" for name, count in characters.items()))
    for note in figures["notes"]:
        print(note)
    print_errors(figures)


def _cells(ratio: dict[str, Any]) -> list[str]:
    value, least, most = (f"{ratio[key]:.2f}" if ratio[key] < 100 else f"{ratio[key]:.0f}" for key in _VALUES)
    cells = [f"{value}x", f"{least}-{most}"]
    if ratio["target"] is not None:
        cells += [f"{ratio['bound']} {ratio['target']:g}x", "met" if ratio["met"] else "missed"]
    return cells


_VALUES = ("ratio", "min", "max")
