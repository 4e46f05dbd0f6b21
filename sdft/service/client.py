"""Client of a training service. Each call is retried until it is answered, and takes effect only once."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx

from selfsurf.agents.model_files import file_sha256
from selfsurf.sdft.run.checkpoint_files import UNFINISHED, discard, publish
from selfsurf.sdft.service.archive import ADAPTER_NAME, EPISODE_NAME, LARGEST_ADAPTER, ArchiveError, pack, unpack
from selfsurf.sdft.service.schemas import (
    FINISHED,
    Adapter,
    Adapters,
    Episode,
    Event,
    File,
    Form,
    Health,
    Job,
    Jobs,
    Lease,
    Problem,
    Schema,
    TrainRequest,
    Uploaded,
    content_id,
)

PATIENCE = 600.0
"""Seconds of retries while the server is unavailable; chosen to outlast a restart."""
_FIRST_WAIT, _LONGEST_WAIT = 0.2, 5.0
_SILENCE = 60.0
"""Seconds without a byte after which a connection counts as dead. Streams have a ping every 15 seconds."""
_GIVING_BACK = 5.0
"""Timeout of releasing a lease, in seconds."""
_PIECE = 2**18

T = TypeVar("T", bound="Any")
S = TypeVar("S", bound=Schema)
Moved = Callable[[int], None]
"""Function called with the number of bytes transferred."""

_log = logging.getLogger(__name__)


class ServiceError(RuntimeError):
    """The server can't be reached, or refuses a request. The message states the remedy."""

    def __init__(self, message: str, problem: Problem | None = None) -> None:
        super().__init__(message)
        self.problem = problem


class ServiceClient:
    """Client of one server. A context manager.

    Args:
        url: address of the server.
        token: token of the server; empty for a local server without one.
        patience: seconds of retries while the server is unavailable.

    Raises:
        ServiceError: the address or the token is malformed.
    """

    def __init__(self, url: str, token: str = "", *, patience: float = PATIENCE) -> None:
        token = token.strip()
        if not (token.isascii() and token.isprintable()):
            raise ServiceError("The token contains invalid characters: copy it from the server again.")
        headers = {"authorization": f"Bearer {token}"} if token else {}
        self.url, self._patience, self._moved_at = url.rstrip("/"), patience, 0.0
        if urlsplit(self.url).scheme not in ("http", "https"):
            raise ServiceError(f"{url!r} is not the address of a server, such as https://gpu.example.org.")
        try:
            self._http = httpx.Client(base_url=self.url, headers=headers, timeout=httpx.Timeout(_SILENCE, connect=10.0))
        except httpx.InvalidURL as error:
            raise ServiceError(f"{url!r} is not the address of a server: {error}.") from None

    def __enter__(self) -> ServiceClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def _patiently(self, do: Callable[[], T]) -> T:
        """Call a function until it succeeds, retrying after connection errors and retryable responses.

        Progress (`_went_on`) restarts the time limit.

        Raises:
            ServiceError: the server refuses, or the time limit is reached.
        """
        end, wait, told = time.monotonic() + self._patience, _FIRST_WAIT, False
        while True:
            began = time.monotonic()
            try:
                return do()
            except httpx.TransportError as error:
                why = f"{type(error).__name__}: {error}".removesuffix(": ")
                failed = ServiceError(f"{self.url} can't be reached ({why}). Is the server running?")
            except ServiceError as error:
                if error.problem is None or not error.problem.retryable:
                    raise
                failed = error
            if self._moved_at > began:
                end, wait = time.monotonic() + self._patience, _FIRST_WAIT
            if time.monotonic() + wait > end:
                raise failed
            _log.log(
                logging.INFO if told else logging.WARNING, "%s Trying again for %.0f s.", failed, end - time.monotonic()
            )
            told = True
            time.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT)

    def _went_on(self) -> None:
        """Record progress that a retry need not repeat."""
        self._moved_at = time.monotonic()

    def _call(self, kind: type[S], method: str, path: str, *, key: str | None = None, **more: Any) -> S:
        headers = {} if method == "GET" else {"idempotency-key": key or uuid.uuid4().hex}
        return self._patiently(lambda: _read(kind, self._http.request(method, path, headers=headers, **more)))

    def health(self) -> Health:
        """Return the server's health."""
        return self._call(Health, "GET", "/health")

    def upload(self, folder: Path, moved: Moved = lambda done: None) -> str:
        """Upload an episode and return its id; an episode that the server has is not sent again.

        Raises:
            ServiceError: the server refuses the episode.
            ArchiveError: the episode can't be packed.
        """
        id = episode_id(folder)
        try:
            return self._call(Episode, "GET", f"/episodes/{id}").id
        except ServiceError as error:
            if error.problem is None or error.problem.type != "not_found":
                raise
        with tempfile.TemporaryDirectory() as scratch:
            archive, reached = pack(folder, EPISODE_NAME, Path(scratch, "episode.tar.gz")), 0
            name = file_sha256(archive)

            def send() -> Uploaded:
                nonlocal reached
                now = _read(Uploaded, self._http.get(f"/uploads/{name}"))
                if now.offset > reached:
                    self._went_on()
                    reached = now.offset
                return now if now.episode is not None else self._send(archive, name, now, moved)

            done = self._patiently(send)
        return str(done.episode)

    def _send(self, archive: Path, name: str, now: Uploaded, moved: Moved) -> Uploaded:
        """Send the part of an archive that the server doesn't have yet."""
        length = archive.stat().st_size
        headers = {"upload-id": name, "upload-offset": str(now.offset), "upload-length": str(length),
                   "content-length": str(length - now.offset), "idempotency-key": f"{name}-{now.offset}"}  # fmt: skip

        def pieces() -> Iterator[bytes]:
            with archive.open("rb") as file:
                file.seek(now.offset)
                while piece := file.read(_PIECE):
                    yield piece
                    moved(file.tell())

        done = _read(Uploaded, self._http.post("/upload_trajectory", content=pieces(), headers=headers))
        if done.episode is None:
            raise ServiceError(
                "The server received only part of the archive.", Problem(type="partial", message="", retryable=True)
            )
        return done

    def train(self, request: TrainRequest) -> Job:
        """Start the training of an adapter. The same request always returns the same job."""
        key = hashlib.sha256(request.model_dump_json().encode()).hexdigest()
        queued = self._call(Job, "POST", "/train", key=key, json=request.model_dump(mode="json"))
        return self.job(queued.id)

    def job(self, id: str) -> Job:
        """Return the current state of a job."""
        return self._call(Job, "GET", f"/jobs/{id}")

    def jobs(self, limit: int = 20) -> list[Job]:
        """Return the newest jobs."""
        return self._call(Jobs, "GET", "/jobs", params={"limit": limit}).data

    def resume(self, id: str) -> Job:
        """Resume a failed or cancelled job."""
        return self._call(Job, "POST", f"/jobs/{id}/resume")

    def cancel(self, id: str) -> Job:
        """Cancel a job."""
        return self._call(Job, "POST", f"/jobs/{id}/cancel")

    def follow(self, id: str) -> Iterator[Event]:
        """Yield a job's events, each once, until it has ended."""
        after = 0
        while True:
            for event in self._patiently(partial(self._some_events, id, after)):
                after = event.number
                yield event
            if self.job(id).status in FINISHED and not self._patiently(partial(self._some_events, id, after)):
                return

    def _some_events(self, id: str, after: int) -> list[Event]:
        """Wait for events after a number; return them, or none if the job has ended or the stream closes."""
        found: list[Event] = []
        with self._http.stream("GET", f"/jobs/{id}/events", headers={"last-event-id": str(after)}) as answer:
            _check(answer)
            for line in answer.iter_lines():
                self._went_on()
                if line.startswith("data:"):
                    found.append(Event.model_validate_json(line[5:]))
                elif found and not line:
                    break
        return found

    def adapter(self, name: str) -> Adapter:
        """Return an adapter's description."""
        return self._call(Adapter, "GET", f"/adapters/{name}")

    def adapters(self, limit: int = 20) -> list[Adapter]:
        """Return the newest adapters."""
        return self._call(Adapters, "GET", "/adapters", params={"limit": limit}).data

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        """Protect an adapter from deletion within this context."""
        lease = self._call(Lease, "POST", f"/adapters/{name}/leases").id
        try:
            yield
        finally:
            try:
                _check(self._http.delete(f"/adapters/{name}/leases/{lease}", timeout=_GIVING_BACK))
            except (httpx.HTTPError, ServiceError) as error:
                _log.info("The lease could not be released: %s", error)  # the lease expires by itself

    def download(
        self,
        one: Adapter,
        form: Form,
        out: Path,
        moved: Moved = lambda done: None,
        *,
        finish: Callable[[Path], None] = lambda made: None,
    ) -> Path:
        """Download an adapter into a new folder. A partial download is kept for the next attempt.

        Args:
            one: the adapter.
            form: format to download.
            out: folder to create, atomically.
            moved: function called with the number of bytes downloaded.
            finish: function called with the temporary folder before it is renamed, to add files to it.

        Raises:
            ServiceError: the adapter isn't available in this format, or the downloaded data differs from the server's.
        """
        if form not in one.files:
            raise ServiceError(f"{one.name} is not available in the format of {form.upper()}: {one.reason}")
        file = one.files[form]
        part = out.with_name(f".{out.name}.{file.sha256[:16]}.part")
        part.parent.mkdir(parents=True, exist_ok=True)
        path = f"/adapters/{one.name}/download?format={form}"

        def fetch() -> None:
            with self.held(one.name):  # one lease per attempt, because leases expire
                self._fetch(path, file, part, moved)

        self._patiently(fetch)
        made = out.with_name(f"{out.name}.{UNFINISHED}")
        discard(made)
        try:
            with part.open("rb") as archive:
                unpack(archive, made, ADAPTER_NAME, most=LARGEST_ADAPTER, largest=LARGEST_ADAPTER)
        except ArchiveError as error:
            raise ServiceError(f"The archive of {one.name} from {self.url} can't be unpacked: {error}") from None
        finish(made)
        publish(made, out)
        part.unlink()
        return out

    def _fetch(self, path: str, file: File, part: Path, moved: Moved) -> None:
        have = part.stat().st_size if part.exists() else 0
        if have < file.bytes:
            headers = {"range": f"bytes={have}-", "if-range": f'"{file.sha256}"'} if have else {}
            with self._http.stream("GET", path, headers=headers) as answer:
                _check(answer)
                with part.open("ab" if answer.status_code == 206 else "wb") as out:
                    for piece in answer.iter_bytes(_PIECE):
                        out.write(piece)
                        out.flush()
                        moved(out.tell())
                        self._went_on()
                    os.fsync(out.fileno())
        if file_sha256(part) != file.sha256:
            part.unlink()
            told = "The downloaded file doesn't have the hash that the server states."
            raise ServiceError(told, Problem(type="wrong_hash", message=told, retryable=have > 0))  # retry from byte 0


def episode_id(folder: Path) -> str:
    """Return the id of an episode, which is the same on every server.

    Raises:
        ArchiveError: the episode has no manifest: it was cut off, or is of format 1.
    """
    try:
        files = json.loads((folder / "manifest.json").read_text(encoding="utf8"))["files"]
        return content_id(dict(files))
    except (OSError, ValueError, KeyError, TypeError):
        raise ArchiveError(f"{folder} has no manifest: the episode was cut off, or is of format 1.") from None


def _read(kind: type[S], answer: httpx.Response) -> S:
    """Parse a server's response.

    Raises:
        ServiceError: the response is an error, or not from a training service.
    """
    _check(answer)
    try:
        return kind.model_validate_json(answer.content)
    except ValueError:
        raise ServiceError(f"The server at {answer.url} is not a training service: check the address.") from None


def _check(answer: httpx.Response) -> None:
    """Raise ServiceError for an error response or a redirect.

    Raises:
        ServiceError: the response is an error or a redirect.
    """
    if answer.has_redirect_location:
        raise ServiceError(f"{answer.url} redirects to {answer.headers['location']}: give that server's address.")
    if answer.is_success:
        return
    answer.read()
    try:
        problem = Problem.model_validate_json(answer.content)
    except ValueError:  # for example a proxy's error page
        problem = Problem(
            type="http", message=f"The server answered {answer.status_code}.", retryable=answer.status_code >= 500
        )
    raise ServiceError(problem.message, problem)
