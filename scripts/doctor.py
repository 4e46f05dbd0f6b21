"""`selfsurf doctor`: what this machine can run, and how to fix what it can't."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING

import typer

from selfsurf.scripts.terminal.arguments import Json

if TYPE_CHECKING:
    from selfsurf.scripts.machine.checks import Check


def main(as_json: Json = False) -> int:
    """Check what this machine can run, and print fixes for what it can't. Exit code 0: what is installed works."""
    from selfsurf.scripts.machine.checks import PARTS, guarded

    checks = []
    for part in PARTS:
        if not as_json:
            typer.echo(f"checking {part.__name__} ...", err=True)
        checks += guarded(part)
    if as_json:
        typer.echo(json.dumps([asdict(check) for check in checks], indent=2))
    else:
        show(checks)
    return int(any(check.state == "failed" for check in checks))


def show(checks: list[Check]) -> None:
    """Print the checks by group, and a conclusion."""
    from selfsurf.extras import how_to_install
    from selfsurf.scripts.machine.checks import asked_for

    colours = {"ok": "green", "optional": "bright_black", "warning": "yellow", "failed": "red"}
    for group, members in groupby(checks, key=lambda check: check.group):
        typer.secho(group, bold=True)
        for check in members:
            state = typer.style(f"{check.state:<9}", fg=colours[check.state])
            typer.echo(f"  {state} {check.name:<18} {check.found}")
            if check.fix:
                typer.echo(f"  {'':<9} {'':<18} -> {check.fix}")
    failed = [check for check in checks if check.state == "failed"]
    typer.echo()
    if not failed:
        without = any(check.name == "transformers" and check.state == "optional" for check in checks)
        agents = f" Local models and training need {how_to_install('train')}." if without else ""
        what = f"What is installed works: {', '.join(['the environment', *asked_for()[1:]])}."
        typer.secho(f"{what}{agents}", fg="green")
        return
    typer.secho(f"The installation is faulty: {len(failed)} of {len(checks)} checks failed.", fg="red")
    for check in failed:
        typer.echo(f"  {check.group}: {check.name}: {check.found}\n    -> {check.fix}")
