"""Routes for uploading and downloading episodes and adapters."""

from __future__ import annotations

import asyncio
import uuid
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request
from fastapi.responses import FileResponse, JSONResponse, Response

from selfsurf.sdft.service import adapters
from selfsurf.sdft.service.answers import Key, once
from selfsurf.sdft.service.errors import RefusedRequest, missing
from selfsurf.sdft.service.metrics import Metrics
from selfsurf.sdft.service.routes_train import Limit
from selfsurf.sdft.service.schemas import (
    EPISODE_ID,
    NAME,
    UPLOAD_ID,
    Adapter,
    Adapters,
    Episode,
    Episodes,
    Form,
    Lease,
    Uploaded,
)
from selfsurf.sdft.service.service_folder import ServiceFolder, ServiceSettings
from selfsurf.sdft.service.store import Store
from selfsurf.sdft.service.uploads import Uploads

Name = Annotated[str, Path(pattern=NAME, examples=["shop"])]
_ARCHIVE = {"application/gzip": {"schema": {"type": "string", "format": "binary"}}}
_BODY: dict[str, Any] = {"requestBody": {"required": True, "content": _ARCHIVE}}
_PART_OR_WHOLE: dict[str, Any] = {"requestBody": {"required": False, "content": _ARCHIVE}}
"""OpenAPI body of an upload; without a body, the request returns the number of bytes received."""
_ARRIVED: dict[int | str, dict[str, Any]] = {
    202: {"model": Uploaded, "description": "Part of the archive has arrived."}
}
_FILE: dict[int | str, dict[str, Any]] = {
    code: {"content": _ARCHIVE, "description": told}
    for code, told in ((200, "The archive."), (206, "A part of the archive."))
}


def data_routes(
    place: ServiceFolder, store: Store, settings: ServiceSettings, uploads: Uploads, metrics: Metrics
) -> APIRouter:
    """Return the routes of episodes and adapters."""
    routes = APIRouter()

    @routes.post(
        "/upload_trajectory", response_model=Uploaded, responses=_ARRIVED, openapi_extra=_PART_OR_WHOLE,
        tags=["episodes"],
    )  # fmt: skip
    async def upload(
        request: Request,
        upload: Annotated[
            str | None, Header(alias="Upload-Id", pattern=UPLOAD_ID, description="The archive's SHA-256.")
        ] = None,
        offset: Annotated[int, Header(alias="Upload-Offset", ge=0, le=2**50)] = 0,
        length: Annotated[int | None, Header(alias="Upload-Length", ge=1, le=2**50)] = None,
        key: Key = None,
    ) -> JSONResponse:
        """Upload an episode: its folder as tar.gz (ustar), in one request or in parts.

        With `Upload-Id` and `Upload-Length`, received bytes are kept if the connection breaks, and the next request
        continues from `Upload-Offset`. The same content is the same episode, however it was packed, with or without an
        `Idempotency-Key`.
        """
        if upload is None:
            if offset:
                raise RefusedRequest(422, "invalid_request", "Upload-Offset requires Upload-Id.")
            upload, length, offset, pieces = await _spooled(request)
        elif length is None:
            raise RefusedRequest(422, "invalid_request", "Upload-Id requires Upload-Length.")
        else:
            pieces = request.stream()
        now = await uploads.receive(upload, offset, length, pieces)
        metrics.uploaded.inc(max(0, now.offset - offset))
        if now.episode is None and now.offset == length:
            now = await uploads.finished(upload)
        return JSONResponse(now.model_dump(), 200 if now.episode else 202)

    async def _spooled(request: Request) -> tuple[str, int, int, Any]:
        path = place.root / "uploads" / f"{uuid.uuid4().hex}.body"
        try:
            name = await uploads.spool(request, path)
            size = path.stat().st_size
            if not size:
                raise RefusedRequest(422, "invalid_request", "The request has no body: send the tar.gz of an episode.")
            file = path.open("rb")
        finally:
            path.unlink(missing_ok=True)
        known = uploads.progress(name).offset  # an earlier request may have sent a part

        async def pieces() -> Any:
            with file:
                file.seek(known)
                while piece := file.read(2**20):
                    yield piece

        return name, size, known, pieces()

    @routes.get("/uploads/{upload}", tags=["episodes"])
    def progress(upload: Annotated[str, Path(pattern=UPLOAD_ID)]) -> Uploaded:
        """Return the progress of an upload."""
        return uploads.progress(upload)

    @routes.delete("/uploads/{upload}", status_code=204, response_class=Response, tags=["episodes"])
    def abandon(upload: Annotated[str, Path(pattern=UPLOAD_ID)], key: Key = None) -> Response:
        """Delete the received part of an abandoned upload."""
        return once(store, key, f"DELETE /uploads/{upload}", None, lambda: uploads.forget(upload), 204)

    @routes.get("/episodes", tags=["episodes"])
    def episodes(after: Annotated[str | None, Query(pattern=EPISODE_ID)] = None, limit: Limit = 20) -> Episodes:
        """List the episodes, the newest first."""
        data, more = store.episodes(after, limit)
        return Episodes(data=data, has_more=more)

    @routes.get("/episodes/{id}", tags=["episodes"])
    def episode(id: Annotated[str, Path(pattern=EPISODE_ID)]) -> Episode:
        """Return an episode."""
        try:
            return store.episode(id)
        except KeyError:
            raise missing("episode") from None

    @routes.delete("/episodes/{id}", status_code=204, response_class=Response, tags=["episodes"])
    def remove(id: Annotated[str, Path(pattern=EPISODE_ID)], key: Key = None) -> Response:
        """Delete an episode that no unfinished job uses."""
        return once(store, key, f"DELETE /episodes/{id}", None, lambda: uploads.remove_episode(id), 204)

    def adapter_of(name: str) -> Adapter:
        try:
            return store.adapter(name)
        except KeyError:
            raise missing("adapter") from None

    @routes.get("/adapters", tags=["adapters"])
    def listed(after: Annotated[str | None, Query(pattern=NAME)] = None, limit: Limit = 20) -> Adapters:
        """List the adapters, the newest first."""
        data, more = store.adapters(after, limit)
        return Adapters(data=data, has_more=more)

    @routes.get("/adapters/{name}", tags=["adapters"])
    def adapter(name: Name) -> Adapter:
        """Return an adapter, with the hashes of its archives."""
        return adapter_of(name)

    @routes.get("/adapters/{name}/download", response_class=FileResponse, responses=_FILE, tags=["adapters"])
    def download(name: Name, format: Form = "peft") -> FileResponse:
        """Download an adapter as tar.gz, for PEFT or for MLX. Supports `Range`."""
        one = adapter_of(name)
        if format not in one.files:
            raise RefusedRequest(409, "no_such_form", "This adapter is not available for MLX; its `reason` says why.")
        metrics.downloads.inc()
        sha = one.files[format].sha256
        return FileResponse(
            adapters.archive_of(place, name, format), media_type="application/gzip", filename=f"{name}.{format}.tar.gz",
            headers={"etag": f'"{sha}"', "x-sha256": sha},
        )  # fmt: skip

    @routes.post("/adapters/import", response_model=Adapter, status_code=201, openapi_extra=_BODY, tags=["adapters"])
    async def bring(
        request: Request,
        name: Annotated[str, Query(pattern=NAME, examples=["shop"])],
        model: Annotated[str | None, Query(max_length=200)] = None,
        key: Key = None,
    ) -> Response:
        """Upload a PEFT adapter of one of the server's models, as tar.gz (ustar), to train further."""
        known = model or next(iter(settings.models))
        if known not in settings.models:
            raise RefusedRequest(404, "unknown_model", f"This server trains {', '.join(settings.models)}.")
        path = place.root / "uploads" / f"{uuid.uuid4().hex}.adapter"
        try:
            sent = await uploads.spool(request, path)

            def do() -> Adapter:
                with store.transaction():
                    if store.has_adapter(name):
                        told = "An adapter or an unfinished request already has this name."
                        raise RefusedRequest(409, "name_taken", told, retryable=name in store.importing)
                    store.importing.add(name)
                try:
                    return adapters.bring(place, store, path, name, (known, settings.models[known]))
                finally:
                    store.importing.remove(name)

            asked = f"POST /adapters/import {name}"
            return await asyncio.to_thread(once, store, key, asked, [sent, known], do, 201, long=True)
        finally:
            path.unlink(missing_ok=True)

    @routes.delete("/adapters/{name}", status_code=204, response_class=Response, tags=["adapters"])
    def delete(name: Name, key: Key = None) -> Response:
        """Delete an adapter that isn't in use."""
        return once(store, key, f"DELETE /adapters/{name}", None, lambda: adapters.remove(place, store, name), 204)

    @routes.post("/adapters/{name}/leases", response_model=Lease, status_code=201, tags=["adapters"])
    def hold(name: Name, seconds: Annotated[float, Query(gt=0, le=86_400)] = 600, key: Key = None) -> Response:
        """Lease an adapter, which protects it from deletion for a time."""

        def do() -> Lease:
            adapter_of(name)
            id, expires = store.lease(name, seconds)
            return Lease(id=id, expires=expires)

        return once(store, key, f"POST /adapters/{name}/leases", seconds, do, 201)

    @routes.delete("/adapters/{name}/leases/{id}", status_code=204, response_class=Response, tags=["adapters"])
    def release(name: Name, id: Annotated[str, Path(pattern=r"^[0-9a-f]{32}$")], key: Key = None) -> Response:
        """Release a lease."""

        def do() -> None:
            if not store.release(name, id):
                raise missing("lease")

        return once(store, key, f"DELETE /adapters/{name}/leases/{id}", None, do, 204)

    return routes
