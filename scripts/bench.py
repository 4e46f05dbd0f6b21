"""`selfsurf bench`: measurements against a raw limit or a peer, in one run."""

from __future__ import annotations

import json
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_show_locals=False)


@app.callback()
def _group() -> None:
    """Measure against a raw limit or a peer, in one run."""


@app.command("env")
def env(
    rounds: Annotated[int, typer.Option(help="Rounds; each measures the raw work and the environment.", min=1)] = 20,
    task: Annotated[str, typer.Option(help="A MiniWoB++ task whose first elements can be clicked for ever.")] = (
        "click-checkboxes-large"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Time a step and a reset of a MiniWoB++ environment beside the raw work that they consist of."""
    from scripts.bench_env import measure, show

    figures = measure(task, rounds)
    if as_json:
        print(json.dumps(figures, indent=1))
    else:
        show(figures)
