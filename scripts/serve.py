"""`selfsurf serve`: the training service."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import Field

from selfsurf.scripts.terminal.arguments import make_folder
from selfsurf.scripts.terminal.command import Arguments, command
from selfsurf.scripts.terminal.console import quiet_libraries
from selfsurf.scripts.terminal.server import TOKEN

if TYPE_CHECKING:
    from selfsurf.sdft.teacher.enrich import EnrichSettings

_ITS_OWN = ("service.json", "service.db", "trainer", "lost+found")
"""Names by which a service folder is recognized, plus `lost+found` of a newly formatted disk."""


class Settings(Arguments):
    """Options of `selfsurf serve`: the address, and the limits of the service."""

    folder: Annotated[Path, typer.Argument(help="Folder of the service's data.")] = Path("runs/service")
    host: str = "127.0.0.1"
    """Address to listen on; any but the local one requires a token."""
    port: int = Field(default=8765, ge=0, le=65535)
    """Port; 0 for a free one."""
    token_file: Path | None = None
    """File with one accepted token per line; by default the variable SELFSURF_SERVER_TOKEN holds the token."""
    model: tuple[str, ...] = ("smollm2",)
    """Base model to train: short name, hub id or folder; clients refer to a folder by its last part. The first model is
    the default. Repeatable."""
    enrich: bool | None = None
    """Offer clients explanations of demonstrations by Nemotron Ultra 253B over NVIDIA NIM, or by the model in
    --enrich-with; page contents are sent there. Enabled by default if NVIDIA_API_KEY is set."""
    enrich_with: str = ""
    """Settings of another model and server for explanations, as JSON: {"model": ..., "endpoint": ..., "base_url": ...}.
    """
    allow_domain: tuple[str, ...] = ()
    """Domain on which training may play in a browser of the server; without any, all training is offline. Repeatable.
    """
    quota_gb: float = Field(default=50.0, gt=0)
    """Maximum size of the service's folder in GiB."""
    max_upload_mb: int = Field(default=512, ge=1)
    """Maximum size of an uploaded archive in MiB."""
    trainings: int = Field(default=1, ge=1, le=64)
    """Number of concurrent trainings; more than one requires a GPU, or a node of --ray, for each."""
    ray: str = ""
    """Address of the Ray cluster whose nodes train, such as auto; this machine if not given. The nodes need the same
    models, and selfsurf[train]."""
    ray_gpus: float = Field(default=1.0, ge=0)
    """GPUs of a --ray node that each training reserves."""
    keep_days: float = Field(default=30.0, gt=0)
    """Days after which unused episodes and the runs of finished jobs are deleted; adapters are kept."""


@command
def main(settings: Settings) -> int:
    """Train adapters for clients from the episodes that they upload (docs/deploy.md).

    Exit code 0 after Ctrl-C: a running training leaves a checkpoint, and resumes when the service is started again.
    """
    import uvicorn

    quiet_libraries()
    from selfsurf.browser_env.record.lock import FolderInUse, FolderLock
    from selfsurf.sdft.service.app import make_app
    from selfsurf.sdft.service.service_folder import ServiceSettings

    tokens = _tokens(settings.token_file)
    if not tokens and settings.host not in ("127.0.0.1", "::1", "localhost"):
        raise typer.BadParameter(
            f"--host {settings.host} can be reached from other machines: set {TOKEN}, or give --token-file."
        )
    allowed = ServiceSettings(
        models=_models(settings.model),
        enrich=_enrichment(settings),
        domains=settings.allow_domain,
        quota=int(settings.quota_gb * 2**30),
        largest_upload=settings.max_upload_mb * 2**20,
        keep_days=settings.keep_days,
        trainings=settings.trainings,
        ray=settings.ray or None,
        ray_gpus=settings.ray_gpus,
    )
    make_folder(settings.folder, "FOLDER")
    if any(settings.folder.iterdir()) and not any((settings.folder / name).exists() for name in _ITS_OWN):
        raise typer.BadParameter(f"FOLDER {settings.folder} holds other files: give a new or an empty folder.")
    try:
        lock = FolderLock(settings.folder)
    except FolderInUse as error:
        raise typer.BadParameter(str(error)) from None
    try:
        listening = socket.create_server(
            (settings.host, settings.port), family=socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        )
    except OSError as error:
        raise typer.BadParameter(f"--port {settings.port} of {settings.host}: {error.strerror}.") from None
    try:
        app = make_app(settings.folder.resolve(), allowed, tokens)
    except sqlite3.DatabaseError as error:
        raise typer.BadParameter(
            f"{settings.folder}/service.db can't be read ({error}): restore a copy, or move the file away."
        ) from None
    port = listening.getsockname()[1]
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    url = f"http://{host}:{port}"
    told = f"Listening on {url}, {'with' if tokens else 'without'} a token."
    print(json.dumps({"url": url, "folder": str(settings.folder)}) if settings.as_json else told, flush=True)
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=5,
        timeout_keep_alive=75, limit_concurrency=2000,
    )  # fmt: skip
    try:
        uvicorn.Server(config).run(sockets=[listening])
    except KeyboardInterrupt:
        pass
    finally:
        lock.release()
    return 0


def _tokens(file: Path | None) -> list[str]:
    """Return the accepted tokens.

    Raises:
        typer.BadParameter: The file holds no token, or a token that can be guessed.
    """
    if file is None:
        token = os.environ.get(TOKEN, "").strip()
        found = [token] if token else []
    else:
        try:
            found = [line.strip() for line in file.read_text(encoding="utf8").splitlines() if line.strip()]
        except OSError as error:
            raise typer.BadParameter(f"--token-file {file}: {error.strerror}.") from None
        if not found:
            raise typer.BadParameter(f"--token-file {file} holds no token.")
    if any(len(token) < 16 for token in found):
        raise typer.BadParameter(
            "A token needs at least 16 characters. Create one with: python -c 'import secrets; "
            "print(secrets.token_urlsafe())'"
        )
    return found


def _enrichment(settings: Settings) -> EnrichSettings | None:
    """Return the settings of the model that explains demonstrations; None if there is none.

    Raises:
        typer.BadParameter: The model can't be queried.
    """
    from selfsurf.sdft.teacher.enrich import Enricher, EnrichSettings

    wanted = settings.enrich
    if wanted is None:
        wanted = bool(settings.enrich_with or os.environ.get("NVIDIA_API_KEY"))
    if not wanted:
        return None
    try:
        found = EnrichSettings.model_validate_json(settings.enrich_with or "{}")
        Enricher(found).close()
    except (ValueError, ImportError) as error:
        raise typer.BadParameter(f"--enrich: {error}") from None
    return found


def _models(given: tuple[str, ...]) -> dict[str, str]:
    """Return the base models by the names that clients use."""
    from selfsurf.agents import model_files

    found: dict[str, str] = {}
    for one in given:
        folder = Path(one).expanduser()
        model_files.check(one)
        name = folder.resolve().name if folder.is_dir() else one
        if name in found:
            raise typer.BadParameter(f"--model {one}: two models are called {name}.")
        found[name] = str(folder.resolve()) if folder.is_dir() else one
    return found
