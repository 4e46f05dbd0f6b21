"""How a measurement ends: figures as a table or JSON on the output, files in a folder, an exit code."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

Show = Callable[[dict[str, Any]], None]


def finish(
    figures: dict[str, Any],
    show: Show,
    *,
    as_json: bool,
    out: Path | None = None,
    name: str = "",
    draw: Callable[[dict[str, Any], Path], None] | None = None,
) -> int:
    """Print figures, write `name.json` and the curve `name.png` into `out` if it is given, and return the exit code.

    Args:
        figures: what was measured; not empty `errors` among them make the exit code 1.
        show: prints them for people.
        as_json: print them as JSON instead.
        out: folder for files; none is written without it.
        name: of the files.
        draw: draws the curve into a file.
    """
    if as_json:
        print(json.dumps(figures, indent=1))
    else:
        show(figures)
    if out:
        out.mkdir(parents=True, exist_ok=True)
        made = {**figures, "made": time.strftime("%Y-%m-%d")}
        (out / f"{name}.json").write_text(json.dumps(made, indent=1) + "\n", encoding="utf8")
        written(out / f"{name}.json")
        if draw:
            draw(figures, out / f"{name}.png")
            written(out / f"{name}.png")
    return int(bool(figures.get("errors")))


def written(*paths: Path) -> None:
    """Say on the error stream which files there are now."""
    for path in paths:
        typer.echo(f"Written: {path}", err=True)


def print_errors(figures: dict[str, Any]) -> None:
    """Say what was not measured, and why."""
    for name, error in figures["errors"].items():
        print(f"Not measured: {name}: {error}")


def print_table(
    heads: Sequence[str], rows: Iterable[Sequence[Any]], title: str = "", *, texts: Sequence[str] = (), width: int = 0
) -> None:
    """Print a table.

    Args:
        heads: of the columns; the first one holds texts, the others numbers.
        rows: of cells, which may have rich's markup; an empty row is a line across.
        title: above it.
        texts: further columns that hold texts.
        width: least width in characters where there is no terminal.
    """
    table = Table(title=title or None)
    for at, head in enumerate(heads):
        table.add_column(head, justify="left" if at == 0 or head in texts else "right")
    for row in rows:
        if row:
            table.add_row(*map(str, row))
        else:
            table.add_section()
    console = Console()
    if width and not console.is_terminal:
        console = Console(width=width)
    console.print(table)


def met(value: float, target: float, *, at_most: bool = False, write: str = "{:g}") -> str:
    """Say whether a target is met: `target: at least 2, missed`."""
    reached = value <= target if at_most else value >= target
    bound = "at most" if at_most else "at least"
    return f"target: {bound} {write.format(target)}, {'met' if reached else 'missed'}"
