"""Uploads: archives that arrive in parts, are verified as a whole, and become episodes named by their content."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from starlette.requests import Request

from selfsurf.agents.model_files import file_sha256
from selfsurf.browser_env.disk import FULL
from selfsurf.browser_env.record.episode import EpisodeError, write_atomically
from selfsurf.browser_env.record.untrusted import UntrustedEpisode
from selfsurf.browser_env.text import one_line
from selfsurf.sdft.run.checkpoint_files import discard, publish
from selfsurf.sdft.service.archive import EPISODE_NAME, ArchiveError, TooLarge, unpack
from selfsurf.sdft.service.errors import RefusedRequest, missing
from selfsurf.sdft.service.schemas import Episode, Uploaded, content_id
from selfsurf.sdft.service.service_folder import NoRoom, ServiceFolder, ServiceSettings
from selfsurf.sdft.service.store import Store

MOST_UNPACKED = 2**30
"""Maximum size of an unpacked episode in bytes."""
AT_ONCE = 2
"""Number of archives unpacked and checked concurrently; more would only compete for memory and CPU."""
STALLED = 30.0
"""Seconds without a byte after which an upload is aborted."""
KEPT = 86_400.0
"""Seconds for which partial uploads are kept."""


class Uploads:
    """Receiver of uploads.

    Args:
        place: the service's folder.
        store: the service's database.
        settings: limits set by the operator.
    """

    def __init__(self, place: ServiceFolder, store: Store, settings: ServiceSettings) -> None:
        self._place, self._store, self._settings = place, store, settings
        self._busy: dict[str, int] = {}
        """Number of outstanding bytes of each upload in transfer."""
        self._finishing: dict[str, asyncio.Future[Uploaded]] = {}
        """Futures of the uploads being verified."""
        self._checkers = ThreadPoolExecutor(AT_ONCE, "upload")  # each thread retains some MB of memory

    def _part(self, upload: str) -> Path:
        return self._place.root / "uploads" / f"{upload}.part"

    def _done(self, upload: str) -> Path:
        return self._place.root / "uploads" / f"{upload}.json"

    def progress(self, upload: str) -> Uploaded:
        """Return the progress of an upload; 0 bytes for an unknown one."""
        if self._done(upload).exists():
            done = Uploaded.model_validate_json(self._done(upload).read_text(encoding="utf8"))
            if (self._place.root / "episodes" / str(done.episode)).exists():
                return done
            self._done(upload).unlink()  # the episode has been removed
        part = self._part(upload)
        return Uploaded(upload=upload, offset=part.stat().st_size if part.exists() else 0)

    async def receive(self, upload: str, offset: int, length: int, pieces: AsyncIterator[bytes]) -> Uploaded:
        """Receive the bytes of an archive from an offset on; received bytes are kept if the connection breaks.

        Args:
            upload: SHA-256 of the archive.
            offset: position of the first byte in the archive.
            length: length of the whole archive.
            pieces: the bytes.

        Raises:
            Refused: the archive is too large, another request sends the same archive, or the offset differs from the
                server's.
        """
        if length > self._settings.largest_upload:
            limit = self._settings.largest_upload // 2**20
            raise RefusedRequest(413, "too_large", f"An archive may have at most {limit:,} MiB.")
        if upload in self._busy:
            raise RefusedRequest(409, "upload_in_use", "Another request is sending this upload.", retryable=True)
        self._busy[upload] = 0
        try:
            now = self.progress(upload)
            if now.episode is not None:
                return now
            if offset != now.offset:
                raise RefusedRequest(
                    409,
                    "wrong_offset",
                    f"The server has {now.offset} bytes: continue from that offset.",
                    retryable=True,
                )
            self._check_room(length - offset)
            self._busy[upload] = length - offset
            try:
                await self._write(upload, length, pieces)
            finally:
                self._place.add(self.progress(upload).offset - offset)
            return self.progress(upload)
        finally:
            del self._busy[upload]

    async def spool(self, request: Request, path: Path) -> str:
        """Write a request's whole body to a file; return its SHA-256.

        Args:
            request: the request.
            path: path of the file, in the folder of uploads.

        Raises:
            Refused: the body is too large, or doesn't fit on the disk or in the quota.
        """
        most, said = self._settings.largest_upload, request.headers.get("content-length")
        left = self._settings.quota - self._place.used() - sum(self._busy.values())
        expected = max(0, min(most, left)) if said is None else min(int(said), most)
        self._check_room(expected)
        self._busy[path.stem] = expected
        try:
            return await _write_body(request.stream(), path, most, expected if said is None else most)
        finally:
            del self._busy[path.stem]

    async def _write(self, upload: str, length: int, pieces: AsyncIterator[bytes]) -> None:
        try:
            with self._part(upload).open("ab") as file:
                size = file.tell()
                async for piece in _arriving(pieces):
                    size += len(piece)
                    if size > length:
                        raise RefusedRequest(400, "too_long", "The request has more bytes than Upload-Length states.")
                    file.write(piece)
        except OSError as error:
            if error.errno in FULL:
                raise RefusedRequest(507, "no_room", "The server's disk is full.", retryable=True) from None
            raise

    async def finished(self, upload: str) -> Uploaded:
        """Call `finish` in a thread pool, once for all concurrent requests."""
        if upload not in self._finishing:
            finishing = asyncio.get_running_loop().run_in_executor(self._checkers, self.finish, upload)
            finishing.add_done_callback(lambda _: self._finishing.pop(upload))
            self._finishing[upload] = finishing
        return await asyncio.shield(self._finishing[upload])

    def finish(self, upload: str) -> Uploaded:
        """Make an episode of a complete archive.

        Raises:
            Refused: the archive has another hash, isn't a complete episode, or doesn't fit on the disk or in the quota.
        """
        part, made = self._part(upload), self._place.root / "uploads" / f"{upload}.folder"
        if not part.exists() and (now := self.progress(upload)).episode is not None:
            return now
        try:
            if file_sha256(part) != upload:
                raise RefusedRequest(
                    422, "wrong_hash", "The archive is damaged: send it again from the beginning.", retryable=True
                )
            shutil.rmtree(made, ignore_errors=True)
            room = self._settings.quota - self._place.used()
            with part.open("rb") as file:
                size = unpack(file, made, EPISODE_NAME, most=max(0, min(MOST_UNPACKED, room)))
            episode, known = self._keep(made, size)
            self._place.add(size)
        except TooLarge as error:
            if room < MOST_UNPACKED:
                raise RefusedRequest(
                    507, "no_room", "The episode exceeds the remaining quota.", retryable=True
                ) from None
            part.unlink()
            raise RefusedRequest(422, "bad_episode", f"This is not a complete episode: {error}") from None
        except (ArchiveError, EpisodeError) as error:
            part.unlink()
            told = str(error).replace(str(made), "it")
            raise RefusedRequest(422, "bad_episode", f"This is not a complete episode: {told}") from None
        except RefusedRequest:
            part.unlink()
            raise
        except OSError as error:
            if error.errno in FULL:
                raise RefusedRequest(507, "no_room", "The server's disk is full.", retryable=True) from None
            raise
        finally:
            shutil.rmtree(made, ignore_errors=True)
        done = Uploaded(upload=upload, offset=part.stat().st_size, episode=episode.id, known=known)
        write_atomically(self._done(upload), done.model_copy(update={"known": True}).model_dump_json())
        part.unlink()
        return done

    def _keep(self, made: Path, size: int) -> tuple[Episode, bool]:
        checked = UntrustedEpisode(made)
        if not (made / "manifest.json").exists():
            raise EpisodeError("it has no manifest.json")
        files = json.loads((made / "manifest.json").read_text(encoding="utf8"))["files"]
        one = Episode(
            id=content_id(files), created=time.time(), bytes=size, steps=len(checked.steps), solved=checked.solved
        )
        target = self._place.root / "episodes" / one.id
        known = target.exists()
        if not known:
            publish(made, target)
        self._store.add_episode(one, one_line(str(checked.meta["goal"])))
        return one, known

    def forget(self, upload: str) -> None:
        """Remove the received part of an upload.

        Raises:
            Refused: the upload is in progress, is being verified, or doesn't exist.
        """
        if upload in self._busy or upload in self._finishing:
            raise RefusedRequest(409, "upload_in_use", "A request is sending this upload.", retryable=True)
        if not self._part(upload).exists():
            raise missing("unfinished upload")
        self._part(upload).unlink()

    def remove_episode(self, id: str) -> None:
        """Delete an episode that no unfinished job uses.

        Raises:
            Refused: an unfinished job uses the episode, or it doesn't exist.
        """
        try:
            self._store.episode(id)
        except KeyError:
            raise missing("episode") from None
        if id in self._store.used_episodes():
            raise RefusedRequest(409, "in_use", "An unfinished job uses this episode.", retryable=True)
        self._store.forget_episode(id)
        discard(self._place.root / "episodes" / id)

    def _check_room(self, more: int) -> None:
        check_room(self._place, more + sum(self._busy.values()), self._settings.quota)

    def tidy(self) -> None:
        """Remove uploads without progress for a day."""
        for path in (self._place.root / "uploads").iterdir():
            if path.stem in self._busy or time.time() - path.stat().st_mtime < KEPT:
                continue
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def check_room(place: ServiceFolder, more: int, quota: int) -> None:
    """Check that `more` bytes fit on the disk and in the quota.

    Raises:
        Refused: the bytes don't fit.
    """
    try:
        place.check_room(more, quota)
    except NoRoom as error:
        raise RefusedRequest(507, "no_room", str(error.strerror), retryable=True) from None


async def _arriving(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the pieces of a body as they arrive.

    Raises:
        Refused: no byte has arrived for `STALLED` seconds; an open connection would block other senders of the same
            upload.
    """
    left = aiter(pieces)
    while True:
        try:
            piece = await asyncio.wait_for(anext(left), STALLED)
        except StopAsyncIteration:
            return
        except TimeoutError:
            told = f"Nothing has arrived for {STALLED:g} s: continue from the server's offset."
            raise RefusedRequest(408, "stalled", told, retryable=True) from None
        yield piece


async def _write_body(pieces: AsyncIterator[bytes], path: Path, most: int, room: int) -> str:
    """Write a request's body to a file; return its SHA-256.

    Args:
        pieces: pieces of the body.
        path: path of the file.
        most: maximum size of an archive in bytes.
        room: available space in bytes.

    Raises:
        Refused: the body exceeds one of the limits.
    """
    digest, size = hashlib.sha256(), 0
    with path.open("wb") as file:
        async for piece in _arriving(pieces):
            size += len(piece)
            if size > most:
                raise RefusedRequest(413, "too_large", f"An archive may have at most {most // 2**20:,} MiB.")
            if size > room:
                raise RefusedRequest(507, "no_room", "The archive exceeds the remaining quota.", retryable=True)
            digest.update(piece)
            file.write(piece)
    return digest.hexdigest()
