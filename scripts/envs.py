"""`selfsurf envs`: list the ids of the registered environments."""

from __future__ import annotations

import json
import re
from typing import Annotated

import gymnasium
import typer

from selfsurf.scripts.terminal.arguments import Json

OURS = "selfsurf"
"""Package whose environments are listed."""


def main(
    match: Annotated[str, typer.Option(help="Show only ids that contain this text, in any case.")] = "",
    as_json: Json = False,
) -> int:
    """Print one line per environment; return 1 if none matches."""
    import selfsurf  # noqa: F401  (registers the ids)

    rows = [
        {"id": spec.id, "suite": spec.namespace or "", "max_episode_steps": spec.max_episode_steps}
        for spec in gymnasium.registry.values()
        if re.split("[.:]", str(spec.entry_point))[0] == OURS and match.lower() in spec.id.lower()
    ]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
    else:
        for row in rows:
            typer.echo(row["id"])
        typer.echo(f"{len(rows)} environments" + (f" with {match!r} in their id" if match else ""), err=True)
    return 0 if rows else 1
