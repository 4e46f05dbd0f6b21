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


@app.command("observe")
def observe(
    page: Annotated[list[str] | None, typer.Option(help="Only the page of this name; may be repeated.")] = None,
    kind: Annotated[str | None, typer.Option(help="Only pages of this kind.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Print what differs, element by element.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
    listing: Annotated[bool, typer.Option("--list", help="List the pages; nothing is installed or opened.")] = False,
    peers: Annotated[bool, typer.Option("--peers", help="Time BrowserGym and browser-use on the same pages.")] = False,
    region: Annotated[str, typer.Option(help="page, or viewport: what a default observation shows of it.")] = "page",
) -> None:
    """Measure how faithful, fast and large the observation is on real pages. Exit code 0: all were measured."""
    from scripts.bench_observe import PEERS, measure
    from scripts.pages.table import choose, listed
    from scripts.show_observe import explain, show, totals

    try:
        pages = choose(page or (), kind)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if region not in ("page", "viewport"):
        raise typer.BadParameter(f"--region is page or viewport, not {region}.")
    if listing:
        print(
            json.dumps(listed(pages), indent=1)
            if as_json
            else "\n".join("  ".join(row.values()) for row in listed(pages))
        )
        return
    beside = PEERS if peers else ()
    rows = measure(pages, region="viewport" if region == "viewport" else "page", peers=beside, explain=verbose)
    if as_json:
        print(json.dumps({"pages": [row.figures() for row in rows], "total": totals(rows)}, indent=1))
    else:
        for row in rows:
            if verbose and not row.problem:
                explain(row)
        show(rows, beside)
    if any(row.problem for row in rows):
        raise typer.Exit(1)
