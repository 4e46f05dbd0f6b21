"""Routes for trainings and their jobs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import APIRouter, Header, Path, Query
from fastapi.responses import Response
from sse_starlette import EventSourceResponse, ServerSentEvent

from selfsurf.sdft.service.answers import Key, once
from selfsurf.sdft.service.errors import RefusedRequest, missing
from selfsurf.sdft.service.schemas import FINISHED, JOB_ID, Job, Jobs, TrainRequest, TrainStatus
from selfsurf.sdft.service.service_folder import ServiceFolder, ServiceSettings
from selfsurf.sdft.service.store import QueueFull, Store
from selfsurf.sdft.service.uploads import check_room

LOOK = 0.5
"""Seconds between two checks for new events of a stream."""

JobId = Annotated[str, Path(pattern=JOB_ID, examples=["job-0123456789abcdef"])]
Limit = Annotated[int, Query(ge=1, le=100, description="Maximum number of entries.")]
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "A stream of events."}
}


def train_routes(place: ServiceFolder, store: Store, settings: ServiceSettings) -> APIRouter:
    """Return the routes of jobs."""
    routes = APIRouter(tags=["jobs"])

    def job_of(id: str) -> Job:
        try:
            return store.job(id)
        except KeyError:
            raise missing("job") from None

    @routes.post("/train", response_model=Job, status_code=201)
    def train(request: TrainRequest, key: Key = None) -> Response:
        """Queue a training on uploaded episodes."""

        def do() -> Job:
            model = request.model or next(iter(settings.models))
            _check(request, model, place, store, settings)
            check_room(place, 0, settings.quota)
            try:
                return store.add_job(request, model)
            except QueueFull:
                raise RefusedRequest(429, "queue_full", "Too many jobs are waiting.", retryable=True) from None

        return once(store, key, "POST /train", request, do, 201)

    @routes.get("/train/status")
    def status() -> TrainStatus:
        """Return the running job and the number of queued jobs."""
        running = [job for job, _, _ in store.unfinished() if job.status == "running"]
        return TrainStatus(running=running[0] if running else None, queued=store.queued())

    @routes.get("/jobs")
    def jobs(after: Annotated[str | None, Query(pattern=JOB_ID)] = None, limit: Limit = 20) -> Jobs:
        """List the jobs, the newest first."""
        data, more = store.jobs(after, limit)
        return Jobs(data=data, has_more=more)

    @routes.get("/jobs/{id}")
    def job(id: JobId) -> Job:
        """Return a job."""
        return job_of(id)

    @routes.get("/jobs/{id}/events", response_class=EventSourceResponse, responses=_STREAM)
    async def events(
        id: JobId,
        last: Annotated[int, Header(alias="Last-Event-ID", ge=0, le=2**53)] = 0,
        after: Annotated[
            int, Query(ge=0, le=2**53, description="Like Last-Event-ID, for clients that can't send headers.")
        ] = 0,
        follow: Annotated[bool, Query(description="Wait for more events until the job has ended.")] = True,
    ) -> EventSourceResponse:
        """Stream a job's events as they happen, from the first or from the one after `Last-Event-ID`."""
        await asyncio.to_thread(job_of, id)
        return EventSourceResponse(_events(store, id, last or after, follow=follow), ping=15, send_timeout=30)

    @routes.post("/jobs/{id}/cancel", response_model=Job)
    def cancel(id: JobId, key: Key = None) -> Response:
        """Cancel a job; a running job writes a checkpoint from which it can be resumed."""

        def do() -> Job:
            now = job_of(id)
            if now.status == "queued":
                import time

                store.change_job(id, status="cancelled", ended=time.time())
            elif now.status == "running":
                store.change_job(id, cancelling=1)
            elif now.status != "cancelled":
                raise RefusedRequest(409, "finished", f"The job has already {now.status}.")
            return store.job(id)

        return once(store, key, f"POST /jobs/{id}/cancel", None, do)

    @routes.post("/jobs/{id}/resume", response_model=Job)
    def resume(id: JobId, key: Key = None) -> Response:
        """Queue a failed or cancelled job again, to resume from its last checkpoint."""

        def do() -> Job:
            now = job_of(id)
            if now.status == "succeeded" or now.cancelling:
                raise RefusedRequest(
                    409, "finished" if not now.cancelling else "cancelling", "The job can't be resumed now."
                )
            if now.status in FINISHED:
                _check(now.request, now.model, place, store, settings)
                store.change_job(id, status="queued", ended=None, error=None, cancelling=0)
            return store.job(id)

        return once(store, key, f"POST /jobs/{id}/resume", None, do)

    return routes


async def _events(store: Store, id: str, after: int, *, follow: bool) -> AsyncIterator[ServerSentEvent]:
    while True:
        job = await asyncio.to_thread(store.job, id)  # read before its events, so that the final events aren't missed
        found = await asyncio.to_thread(store.events, id, after)
        for event in found:
            after = event.number
            yield ServerSentEvent(event.model_dump_json(), id=str(event.number), event=event.type)
        if not found:
            if job.status in FINISHED or not follow:
                return
            await asyncio.sleep(LOOK)


def _check(request: TrainRequest, model: str, place: ServiceFolder, store: Store, settings: ServiceSettings) -> None:
    """Refuse an impossible training request."""
    if model not in settings.models:
        raise RefusedRequest(404, "unknown_model", f"This server trains {', '.join(settings.models)}.")
    for one in request.episodes:
        if not (place.root / "episodes" / one).is_dir():
            raise RefusedRequest(404, "not_found", f"There is no episode {one}: upload it.")
    if request.start_from:
        try:
            store.adapter(request.start_from)
        except KeyError:
            raise missing("adapter to start from") from None
    if request.enrich and settings.enrich is None:
        raise RefusedRequest(422, "no_enrichment", "This server has no model to explain demonstrations (enrich).")
    if request.live:
        for one in request.episodes:
            meta = json.loads((place.root / "episodes" / one / "episode.json").read_text(encoding="utf8"))
            host = urlsplit(str(meta.get("url") or "")).hostname
            if host not in settings.domains:
                raise RefusedRequest(
                    403, "live_refused", "This server doesn't play on the site where the episodes were recorded."
                )
