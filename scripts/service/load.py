"""Load test of a training service on loopback: concurrent pollers, event streams and uploads.

The service runs in a process of its own, as `selfsurf serve` starts it, in a new folder. Its trainer is locked out, so
that the followed job stays queued. Response times during a training are not measured.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np

MIB = 2**20
UPLOADING = 0.1
"""Share of the time after which the uploads begin."""
_SIDE = 1600
"""Width and height in pixels of an uploaded screenshot, which is noise of 7.7 MB."""
_GOAL = "Click the link"


@dataclass
class _LoadMeasurements:
    """Measurements of the clients and of the server's memory."""

    polls: list[tuple[float, float]] = field(default_factory=list)
    """Send time of each poll in seconds since the start, and seconds until its response."""
    errors: list[str] = field(default_factory=list)
    events: int = 0
    uploads: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    """Memory of the server process in MiB, sampled every second."""


def measure(out: Path, *, seconds: float, pollers: int, streams: int, uploads: int, upload_mb: int) -> dict[str, Any]:
    """Put a service under load, and return the measured figures.

    Args:
        out: New folder, for the service and the uploaded files.
        seconds: Duration of the load.
        pollers: Clients that request the status once per second.
        streams: Clients that follow the events of a queued job.
        uploads: Clients that each upload an episode, all at once.
        upload_mb: MiB of each upload.

    Returns:
        `polls`, their `median_ms`, `p99_ms` and `worst_ms`, and `p99_ms_uploading` of those during the uploads;
        `events`;
        `uploads` and `upload_seconds` of the slowest; `memory_mb` before, and `memory_grew_mb` at most; `errors`.
    """
    from selfsurf.browser_env.record.lock import FolderLock
    from selfsurf.sdft.service.archive import EPISODE_NAME, pack

    shutil.rmtree(out, ignore_errors=True)
    small, archives = _episode(out / "small", 0, upload_mb), []
    for number in range(1, uploads + 1):
        folder = _episode(out / "episode", number, upload_mb)
        archives.append(pack(folder, EPISODE_NAME, out / f"{number}.tar.gz"))
        shutil.rmtree(folder)
    served = out / "service"
    served.mkdir(parents=True)
    lock = FolderLock(served / "trainer")
    server = subprocess.Popen(
        [sys.executable, "-m", "selfsurf.scripts.cli", "serve", str(served), "--port", "0"],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "SELFSURF_SERVER_TOKEN": ""},
    )  # fmt: skip
    try:
        assert server.stdout is not None
        told = re.search(r"http://\S+?(?=,)", server.stdout.readline())
        if told is None:
            raise RuntimeError("The service did not start; its error stream says why.")
        clients: dict[str, Any] = {"seconds": seconds, "pollers": pollers, "streams": streams}
        return asyncio.run(_load(told[0], server.pid, small, archives, **clients))
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(60)
        lock.release()


def _episode(folder: Path, number: int, mb: int) -> Path:
    """Write an episode of about `mb` MiB of noise; a tiny one if `number` is 0."""
    from selfsurf.browser_env.record.episode import EpisodeWriter

    shots = max(1, round(mb * MIB / (3 * _SIDE * _SIDE))) if number else 1
    side = _SIDE if number else 8
    rng, url = np.random.default_rng(number), "https://shop.example/"
    page: Any = {
        "goal": _GOAL, "url": url, "title": "Shop", "tabs": ({"url": url, "title": "Shop", "active": True},),
        "elements": (
            {"id": 1, "role": "link", "name": "1", "tag": "a", "value": "", "states": (), "bbox": (0.0, 0.0, 9.0, 9.0),
             "in_viewport": True, "frame": "", "options": ()},
        ),
        "dom": '[1] link "1"', "page_text": "1", "last_action": "", "last_error": "", "events": (), "messages": (),
    }  # fmt: skip
    writer = EpisodeWriter(folder, {"goal": _GOAL, "url": url, "seed": number})
    for step in range(shots):
        last = step == shots - 1
        info: Any = {"timing": {}, "outcome": "solved" if last else "running", "score": {}}
        seen: Any = {**page, "screenshot": rng.integers(0, 255, (side, side, 3), dtype=np.uint8)}
        writer.step(seen, {"action": "click", "id": 1}, reward=float(last), info=info, after=page)
    writer.finish("solved", trainable=True, after=page)
    return folder


async def _load(
    url: str, pid: int, small: Path, archives: Sequence[Path], *, seconds: float, pollers: int, streams: int
) -> dict[str, Any]:
    from selfsurf.sdft.service.client import ServiceClient
    from selfsurf.sdft.service.schemas import TrainRequest

    def waiting_job() -> str:
        with ServiceClient(url) as client:
            return client.train(TrainRequest(episodes=(client.upload(small),), adapter="load")).id

    job = await asyncio.to_thread(waiting_job)
    seen, begun = _LoadMeasurements(), time.monotonic()
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(base_url=url, limits=limits, timeout=60) as http:
        before = _memory(pid)
        working = [
            *(_poll(url, seen, begun, seconds, first=number / pollers) for number in range(pollers)),
            *(_follow(http, seen, job, begun, seconds) for _ in range(streams)),
            _watch(seen, pid, begun, seconds),
        ]
        started = asyncio.gather(*working)
        await asyncio.sleep(UPLOADING * seconds)
        first = time.monotonic() - begun
        await asyncio.gather(*(asyncio.to_thread(_upload, url, one, seen) for one in archives))
        last = time.monotonic() - begun
        await started
    took = sorted(1000 * each for _, each in seen.polls)
    meanwhile = sorted(1000 * each for at, each in seen.polls if first <= at <= last)
    return {
        "seconds": seconds, "pollers": pollers, "streams": streams, "polls": len(took),
        "median_ms": round(statistics.median(took), 1), "p99_ms": _p99(took), "worst_ms": round(took[-1], 1),
        "p99_ms_uploading": _p99(meanwhile) if meanwhile else None, "events": seen.events,
        "uploads": len(seen.uploads), "upload_seconds": round(max(seen.uploads, default=0.0), 1),
        "memory_mb": round(before, 1), "memory_grew_mb": round(max(seen.memory) - before, 1), "errors": seen.errors,
    }  # fmt: skip


async def _poll(url: str, seen: _LoadMeasurements, begun: float, seconds: float, *, first: float) -> None:
    """Request the status once per second over a connection of its own, even if the last response took longer.

    Raw HTTP, because 200 clients of an HTTP library would dominate the measured time.
    """
    host, port = url.removeprefix("http://").split(":")
    asked = f"GET /train/status HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()
    reader, writer = await asyncio.open_connection(host, int(port))
    at = first
    while at < seconds:
        await asyncio.sleep(max(0.0, begun + at - time.monotonic()))
        sent = time.monotonic()
        try:
            async with asyncio.timeout(60):
                writer.write(asked)
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"(?i)content-length: (\d+)", head)
                body = await reader.readexactly(int(length[1]) if length else 0)
            if not head.startswith(b"HTTP/1.1 200") or b'"queued"' not in body:
                seen.errors.append(f"a poll: {head[:80]!r} {body[:200]!r}")
        except (OSError, EOFError, TimeoutError) as error:
            seen.errors.append(f"a poll: {error!r}")
            reader, writer = await asyncio.open_connection(host, int(port))
        seen.polls.append((sent - begun, time.monotonic() - sent))
        at = max(at + 1.0, time.monotonic() - begun)
    writer.close()


async def _follow(http: httpx.AsyncClient, seen: _LoadMeasurements, job: str, begun: float, seconds: float) -> None:
    """Follow a job's events until the time is over."""
    try:
        async with asyncio.timeout(seconds - (time.monotonic() - begun)):
            async with http.stream("GET", f"/jobs/{job}/events") as answer:
                answer.raise_for_status()
                async for line in answer.aiter_lines():
                    seen.events += line.startswith("data:")
                seen.errors.append("a stream ended before its job")
    except TimeoutError:
        pass
    except httpx.HTTPError as error:
        seen.errors.append(f"a stream: {error!r}")


def _upload(url: str, archive: Path, seen: _LoadMeasurements) -> None:
    from selfsurf.agents.model_files import file_sha256

    headers = {"upload-id": file_sha256(archive), "upload-length": str(archive.stat().st_size)}
    start = time.monotonic()
    try:
        with archive.open("rb") as file:
            httpx.post(f"{url}/upload_trajectory", content=file, headers=headers, timeout=120).raise_for_status()
    except httpx.HTTPError as error:
        seen.errors.append(f"an upload: {error!r}")
    seen.uploads.append(time.monotonic() - start)


async def _watch(seen: _LoadMeasurements, pid: int, begun: float, seconds: float) -> None:
    while time.monotonic() - begun < seconds:
        seen.memory.append(_memory(pid))
        await asyncio.sleep(1.0)


def _memory(pid: int) -> float:
    """Return the resident memory of a process in MiB."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def _p99(values: Sequence[float]) -> float:
    return round(values[min(len(values) - 1, int(0.99 * len(values)))], 1)
