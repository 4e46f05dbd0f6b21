"""Upload of a finished episode to a training service."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import typer

from selfsurf.scripts.terminal.console import progress, show_error
from selfsurf.scripts.terminal.interrupts import Interrupts

PATIENCE = 40.0
"""Seconds that the service may be unreachable; the service treats a broken upload as active for 30 s."""


class Upload:
    """Upload of episodes to the training service at SELFSURF_SERVER_URL.

    Raises:
        typer.BadParameter: The variable is not set.
        ImportError: The extra `server` is missing.
    """

    def __init__(self) -> None:
        from selfsurf.scripts.terminal.server import NAME, ServerArguments

        url = os.environ.get(NAME, "")
        if not url:
            raise typer.BadParameter(
                f"--upload: {NAME} must be the address of a training service, such as https://gpu.example.org."
            )
        self._client = ServerArguments(server_url=url, patience=PATIENCE).client()

    def send(self, folder: Path, interrupts: Interrupts, *, silent: bool) -> dict[str, Any]:
        """Upload an episode; a failure is shown, and doesn't change the result of the run.

        Args:
            folder: Folder of the episode.
            interrupts: Held signals, which are raised during the upload.
            silent: Whether to show nothing but errors.

        Returns:
            `episode`, the episode's id on the server, or `error`.
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
            show_error(f"Not uploaded: {error} `selfsurf deploy --episodes {folder}` sends the episode later.")
            return {"error": str(error)}
        finally:
            interrupts.hold()
        if not silent:
            print(f"Uploaded: {episode}")
        return {"episode": episode}
