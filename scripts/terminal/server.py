"""Address and token of a training service, and the arguments of commands that connect to one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import Field

from selfsurf.scripts.terminal.command import Arguments

if TYPE_CHECKING:
    from selfsurf.sdft.service.client import ServiceClient

NAME = "SELFSURF_SERVER_URL"
"""Environment variable that holds the server's address."""

TOKEN = "SELFSURF_SERVER_TOKEN"
"""Environment variable that holds the server's token, for the server and its clients."""


class ServerArguments(Arguments):
    """Arguments of a command that connects to a training service."""

    server_url: Annotated[str, typer.Option(envvar=NAME)] = ""
    """Address of the training service, such as https://gpu.example.org; its token is in SELFSURF_SERVER_TOKEN."""
    patience: float = Field(default=600.0, ge=0)
    """Seconds for which the server may be unreachable, as during a restart."""

    def client(self) -> ServiceClient:
        """Return a client of the server.

        Raises:
            typer.BadParameter: The address is missing or invalid.
        """
        from selfsurf.sdft.service.client import ServiceClient, ServiceError

        if not self.server_url.startswith(("http://", "https://")):
            raise typer.BadParameter(f"--server-url (or {NAME}) must be an address such as https://gpu.example.org.")
        try:
            return ServiceClient(self.server_url, os.environ.get(TOKEN, ""), patience=self.patience)
        except ServiceError as error:
            raise typer.BadParameter(f"--server-url, {TOKEN}: {error}") from None
