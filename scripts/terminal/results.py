"""Output of a measurement: figures as a table or JSON on stdout, files in a folder, an exit code."""

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
    """Print figures, write `name.json` and the plot `name.png` into `out` if given, and return the exit code.

    Args:
        figures: The measured figures; the exit code is 1 if their `errors` are not empty.
        show: Prints the figures for people.
        as_json: Whether to print JSON instead.
        out: Folder for the files; None to write none.
        name: Name of the files, without suffix.
        draw: Draws the plot into a file.
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
    """Print the paths of new files to stderr."""
    for path in paths:
        typer.echo(f"Written: {path}", err=True)


def print_errors(figures: dict[str, Any]) -> None:
    """Print each part that was not measured, with its error."""
    for name, error in figures["errors"].items():
        print(f"Not measured: {name}: {error}")


def print_table(
    heads: Sequence[str], rows: Iterable[Sequence[Any]], title: str = "", *, texts: Sequence[str] = (), width: int = 0
) -> None:
    """Print a table.

    Args:
        heads: Column headings; the first column holds text, the others numbers.
        rows: Rows of cells, which may have Rich markup; an empty row is a line across.
        title: Title above the table.
        texts: Headings of further columns that hold text.
        width: Minimum width in characters where there is no terminal.
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
    """Return a target with its verdict, such as `target: at least 2, missed`."""
    reached = value <= target if at_most else value >= target
    bound = "at most" if at_most else "at least"
    return f"target: {bound} {write.format(target)}, {'met' if reached else 'missed'}"
