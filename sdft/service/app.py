"""The service as an ASGI application: its routes behind the guard, and the supervisor running beside them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import time
from collections.abc import AsyncIterator, Sequence
from importlib.metadata import version
from pathlib import Path

from fastapi import FastAPI, Security
from fastapi.responses import FileResponse, Response
from fastapi.security import HTTPBearer

from selfsurf.sdft.run.checkpoint_files import UNFINISHED, discard
from selfsurf.sdft.service.errors import RefusedRequest, add_handlers
from selfsurf.sdft.service.guard import Guard
from selfsurf.sdft.service.metrics import Metrics
from selfsurf.sdft.service.routes_data import data_routes
from selfsurf.sdft.service.routes_train import train_routes
from selfsurf.sdft.service.schemas import FINISHED, Health, Problem
from selfsurf.sdft.service.service_folder import ServiceFolder, ServiceSettings
from selfsurf.sdft.service.store import Store
from selfsurf.sdft.service.supervisor import Supervisor
from selfsurf.sdft.service.uploads import KEPT, Uploads

TIDY = 600.0
"""Seconds between two cleanups."""
_PAGE = Path(__file__).parent / "page"
_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

_log = logging.getLogger(__name__)


def make_app(root: Path, settings: ServiceSettings, tokens: Sequence[str] = ()) -> FastAPI:
    """Return the application.

    Args:
        root: the service's folder, used by one server at a time.
        settings: limits set by the operator.
        tokens: accepted tokens; empty to accept requests from this machine only.
    """
    place = ServiceFolder(root)
    place.settle(settings)
    store, metrics = Store(place.database), Metrics()
    uploads, supervisor = Uploads(place, store, settings), Supervisor(place, store)

    @contextlib.asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        supervisor.begin()
        tidying = asyncio.create_task(_tidy(place, store, uploads, settings))
        yield
        tidying.cancel()
        await asyncio.to_thread(supervisor.end)
        store.close()

    app = FastAPI(
        title="selfsurf training service",
        version=version("selfsurf"),
        lifespan=life,
        docs_url=None,
        redoc_url=None,
        responses={"4XX": {"model": Problem}, "5XX": {"model": Problem}},
    )
    add_handlers(app)
    app.add_middleware(Guard, tokens=tokens, metrics=metrics)
    secured = [Security(HTTPBearer(auto_error=False))] if tokens else []  # for the schema; the guard checks the token
    app.include_router(train_routes(place, store, settings), dependencies=secured)
    app.include_router(data_routes(place, store, settings, uploads, metrics), dependencies=secured)

    @app.get("/health")
    def health() -> Health:
        """Report that the server is running, and which models it trains."""
        busy = any(job.status == "running" for job, _, _ in store.unfinished())
        return Health(
            version=app.version,
            models=tuple(settings.models),
            enrich=settings.enrich is not None,
            trainer="running" if busy else "idle",
        )

    @app.get(
        "/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}}, dependencies=secured
    )
    def figures() -> Response:
        """Return the metrics for Prometheus."""
        return Response(metrics.text(place, store, settings.quota), media_type="text/plain; version=0.0.4")

    def page(name: str, kind: str) -> None:
        @app.get("/" if name == "page.html" else f"/{name}", include_in_schema=False)
        def file() -> FileResponse:
            headers = {"content-security-policy": _CSP, "referrer-policy": "no-referrer", "cache-control": "no-cache"}
            return FileResponse(_PAGE / name, media_type=kind, headers=headers)

    for name, kind in (("page.html", "text/html"), ("page.js", "text/javascript"), ("page.css", "text/css")):
        page(name, kind)
    return app


async def _tidy(place: ServiceFolder, store: Store, uploads: Uploads, settings: ServiceSettings) -> None:
    while True:
        try:
            await asyncio.to_thread(tidy_once, place, store, uploads, settings)
        except Exception:
            _log.exception("The cleanup failed.")
        await asyncio.sleep(TIDY)


def tidy_once(place: ServiceFolder, store: Store, uploads: Uploads, settings: ServiceSettings) -> None:
    """Remove expired data: partial uploads, episodes that no job uses, and runs of finished jobs."""
    before = time.time() - 86_400 * settings.keep_days
    uploads.tidy()
    store.tidy()
    for id in store.idle_episodes(before):
        with store.transaction(), contextlib.suppress(RefusedRequest):  # a job may have started to use it
            uploads.remove_episode(id)
    for left in place.root.glob(f"*/*.{UNFINISHED}"):  # partly written or removed adapters and episodes
        if time.time() - left.stat().st_mtime > KEPT:
            discard(left)
    for folder in (place.root / "jobs").iterdir():
        try:
            job = store.job(folder.name)
        except KeyError:
            continue
        if job.status in FINISHED and (job.ended or 0) < before:
            shutil.rmtree(folder, ignore_errors=True)
