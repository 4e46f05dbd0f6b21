"""`selfsurf bench`: measurements against a raw limit or a peer, in one run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_show_locals=False)


@app.callback()
def _group() -> None:
    """Measure against a raw limit or a peer, in one run."""


@app.command("env")
def env(
    rounds: Annotated[
        int | None, typer.Option(help="Rounds, in which all take turns; 20, with --peers 5 by default.", min=1)
    ] = None,
    peers: Annotated[
        bool, typer.Option("--peers", help="Beside BrowserGym and browser-use, installed in the cache on first use.")
    ] = False,
    task: Annotated[str, typer.Option(help="A MiniWoB++ task whose first checkboxes can be clicked for ever.")] = (
        "click-checkboxes-large"
    ),
    docs: Annotated[
        Path | None, typer.Option(help="Folder of the Python documentation as HTML; fetched with apt by default.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Time steps, resets and observations beside the raw work that they consist of, and beside the peers."""
    from scripts.bench_env import measure, show
    from scripts.processes import ending_on_signal

    with ending_on_signal():
        figures = measure(task, rounds or (5 if peers else 20), peers=peers, docs=docs)
    if as_json:
        print(json.dumps(figures, indent=1))
    else:
        show(figures)
