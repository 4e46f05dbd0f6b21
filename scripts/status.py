"""`selfsurf status`: show the jobs and adapters of a training service."""

from __future__ import annotations

import json

from pydantic import Field
from rich.table import Table

from selfsurf.scripts.terminal.command import command
from selfsurf.scripts.terminal.console import console
from selfsurf.scripts.terminal.server import ServerArguments


class Settings(ServerArguments):
    """Options of `selfsurf status`: the server and its timeout."""

    patience: float = Field(default=0.0, ge=0)
    """Seconds for which the server may be unreachable."""


@command
def main(settings: Settings) -> int:
    """Print the jobs and adapters of a training service.

    Exit code 1: the server can't be reached, or refuses the request.
    """
    from selfsurf.sdft.service.client import ServiceError

    with settings.client() as client:
        try:
            health, jobs, adapters = client.health(), client.jobs(), client.adapters()
        except ServiceError as error:
            console.print(str(error), style="red", markup=False)
            return 1
    if settings.as_json:
        plain = {
            "health": health.model_dump(mode="json"),
            "jobs": [one.model_dump(mode="json") for one in jobs],
            "adapters": [one.model_dump(mode="json") for one in adapters],
        }
        print(json.dumps(plain, indent=1))
        return 0
    print(f"selfsurf {health.version}, {health.trainer}; models: {', '.join(health.models)}")
    table = Table("job", "status", "step", "adapter", box=None)
    for job in jobs:
        table.add_row(job.id, job.status, f"{job.step}/{job.steps or '?'}", job.adapter)
    if jobs:
        from rich.console import Console

        Console().print(table)
    print("Adapters: " + (", ".join(one.name for one in adapters) or "none"))
    return 0
