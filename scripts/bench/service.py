"""`selfsurf bench service`: put the training service under load."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from pydantic import Field

from selfsurf.scripts.terminal.arguments import make_folder
from selfsurf.scripts.terminal.command import Arguments, command
from selfsurf.scripts.terminal.results import finish


class Settings(Arguments):
    """Options of `selfsurf bench service`."""

    out: Path = Path("runs/load")
    """Folder of the service and of the uploaded files; it is emptied."""
    seconds: float = Field(default=300.0, gt=0)
    pollers: int = Field(default=200, ge=1)
    """Clients that request the status once per second."""
    streams: int = Field(default=50, ge=0)
    """Clients that follow a job's events."""
    uploads: int = Field(default=20, ge=0)
    """Episodes that are uploaded concurrently."""
    upload_mb: int = Field(default=20, ge=1)
    """MiB of each uploaded episode."""


@command
def main(settings: Settings) -> int:
    """Put a training service on this machine under load, and time its responses.

    Exit code 1: a request failed.
    """
    from selfsurf.scripts.service.load import measure

    make_folder(settings.out)
    given = settings.model_dump(include={"seconds", "pollers", "streams", "uploads", "upload_mb"})
    figures = measure(settings.out.resolve(), **given)
    return finish(figures, show, as_json=settings.as_json)


def show(figures: dict[str, Any]) -> None:
    """Print the figures."""
    print(
        f"{figures['polls']:,} polls in {figures['seconds']:g} s: median {figures['median_ms']:g} ms, 99% within "
        f"{figures['p99_ms']:g} ms, worst {figures['worst_ms']:g} ms; {figures['streams']} streams; "
        f"{figures['uploads']} uploads within {figures['upload_seconds']:g} s (99% of polls during uploads within "
        f"{figures['p99_ms_uploading'] or 0:g} ms).\n"
        f"Memory: {figures['memory_mb']:g} MiB, growth at most {figures['memory_grew_mb']:g} MiB."
    )
    for error, count in Counter(figures["errors"]).most_common():
        print(f"Failed, {count} times: {error}")
