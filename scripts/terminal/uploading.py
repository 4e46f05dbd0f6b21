"""An episode sent to a training service once it has ended."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import typer

from selfsurf.scripts.terminal.console import progress, show_error
from selfsurf.scripts.terminal.interrupts import Interrupts

PATIENCE = 40.0
"""Seconds for which the service may be away: it takes an upload that has broken for one in use for 30."""


class Upload:
    """The way to the service whose address is in SELFSURF_SERVER_URL.

    Raises:
        typer.BadParameter: there is no address.
        ImportError: the extra `server` is missing.
    """

    def __init__(self) -> None:
        from selfsurf.scripts.deploy import NAME, ServerArguments

        url = os.environ.get(NAME, "")
        if not url:
            raise typer.BadParameter(f"--upload: {NAME} names no training service, such as https://gpu.example.org.")
        self._client = ServerArguments(server_url=url, patience=PATIENCE).client()

    def send(self, folder: Path, interrupts: Interrupts, *, silent: bool) -> dict[str, Any]:
        """Send an episode, and say what came of it; a failure is shown, and costs the run nothing.

        Args:
            folder: of the episode.
            interrupts: are held, and come through while it is sent.
            silent: show no progress.

        Returns:
            `episode`, its id on the server, or `error`.
        """
        from selfsurf.sdft.service.archive import ArchiveError
        from selfsurf.sdft.service.client import ServiceError

        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        bar = nullcontext(lambda done: None) if silent else progress("Uploading", size)
        try:
            interrupts.release()
            with self._client as client, bar as update:
                episode = client.upload(folder, update)
        except KeyboardInterrupt:
            return {"error": "interrupted"}
        except (ServiceError, ArchiveError, OSError) as error:
            show_error(f"Not uploaded: {error} `selfsurf deploy --episodes {folder}` sends it later.")
            return {"error": str(error)}
        finally:
            interrupts.hold()
        if not silent:
            print(f"Uploaded: {episode}")
        return {"episode": episode}
