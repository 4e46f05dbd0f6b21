"""Uploads: archives that arrive in parts, are checked as a whole, and become episodes named by their content."""

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
from selfsurf.browser_env.record.checked import CheckedEpisode
from selfsurf.browser_env.record.episode import EpisodeError, write_atomically
from selfsurf.browser_env.record.room import FULL
from selfsurf.browser_env.text import one_line
from selfsurf.sdft.run.checkpoint_files import discard, publish
from selfsurf.sdft.service.archive import EPISODE_NAME, ArchiveError, TooLarge, unpack
from selfsurf.sdft.service.errors import Refused, missing
from selfsurf.sdft.service.place import NoRoom, Place, ServiceSettings
from selfsurf.sdft.service.schemas import Episode, Uploaded, content_id
from selfsurf.sdft.service.store import Store

MOST_UNPACKED = 2**30
"""Bytes of an episode."""
AT_ONCE = 2
"""Archives that are unpacked and checked at the same time: more would only take each other's memory and processor."""
STALLED = 30.0
"""Seconds without a byte after which an upload's sender is taken for gone."""
KEPT = 86_400.0
"""Seconds for which what has arrived of an upload is kept."""


class Uploads:
    """What arrives.

    Args:
        place: the service's folder.
        store: its memory.
        settings: its limits.
    """

    def __init__(self, place: Place, store: Store, settings: ServiceSettings) -> None:
        self._place, self._store, self._settings = place, store, settings
        self._busy: dict[str, int] = {}
        """Uploads that are arriving, and the bytes that each may still bring."""
        self._finishing: dict[str, asyncio.Future[Uploaded]] = {}
        """Uploads that are being checked."""
        self._checkers = ThreadPoolExecutor(AT_ONCE, "upload")  # each thread keeps some MB of its own

    def _part(self, upload: str) -> Path:
        return self._place.root / "uploads" / f"{upload}.part"

    def _done(self, upload: str) -> Path:
        return self._place.root / "uploads" / f"{upload}.json"

    def progress(self, upload: str) -> Uploaded:
        """Return how far an upload has come; 0 bytes of one that is not known."""
        if self._done(upload).exists():
            done = Uploaded.model_validate_json(self._done(upload).read_text(encoding="utf8"))
            if (self._place.root / "episodes" / str(done.episode)).exists():
                return done
            self._done(upload).unlink()  # the episode was removed since
        part = self._part(upload)
        return Uploaded(upload=upload, offset=part.stat().st_size if part.exists() else 0)

    async def receive(self, upload: str, offset: int, length: int, pieces: AsyncIterator[bytes]) -> Uploaded:
        """Take the bytes of an archive from an offset on; what has arrived stays if the connection breaks.

        Args:
            upload: its SHA-256.
            offset: of the first byte in its archive.
            length: of the whole archive.
            pieces: the bytes.

        Raises:
            Refused: it is too large, another request sends the same, or the offset is another than the server's.
        """
        if length > self._settings.largest_upload:
            limit = self._settings.largest_upload // 2**20
            raise Refused(413, "too_large", f"An archive may have at most {limit:,} MiB.")
        if upload in self._busy:
            raise Refused(409, "upload_in_use", "Another request is sending this upload.", retryable=True)
        self._busy[upload] = 0
        try:
            now = self.progress(upload)
            if now.episode is not None:
                return now
            if offset != now.offset:
                raise Refused(
                    409, "wrong_offset", f"The server has {now.offset} bytes: go on from there.", retryable=True
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
        """Write a request's whole body into a file; return its SHA-256.

        Args:
            request: which.
            path: of the file, in the folder of uploads.

        Raises:
            Refused: it is too large, or there is no room for it.
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
                        raise Refused(400, "too_long", "More bytes came than the archive has.")
                    file.write(piece)
        except OSError as error:
            if error.errno in FULL:
                raise Refused(507, "no_room", "The server's disk is full.", retryable=True) from None
            raise

    async def finished(self, upload: str) -> Uploaded:
        """As `finish`, in a thread, a few at a time; once for all that ask meanwhile."""
        if upload not in self._finishing:
            finishing = asyncio.get_running_loop().run_in_executor(self._checkers, self.finish, upload)
            finishing.add_done_callback(lambda _: self._finishing.pop(upload))
            self._finishing[upload] = finishing
        return await asyncio.shield(self._finishing[upload])

    def finish(self, upload: str) -> Uploaded:
        """Make an episode of an archive that is complete.

        Raises:
            Refused: it is not what was announced, no whole episode, or there is no room for it.
        """
        part, made = self._part(upload), self._place.root / "uploads" / f"{upload}.folder"
        if not part.exists() and (now := self.progress(upload)).episode is not None:
            return now
        try:
            if file_sha256(part) != upload:
                raise Refused(
                    422, "wrong_hash", "The archive is damaged: send it again from its beginning.", retryable=True
                )
            shutil.rmtree(made, ignore_errors=True)
            room = self._settings.quota - self._place.used()
            with part.open("rb") as file:
                size = unpack(file, made, EPISODE_NAME, most=max(0, min(MOST_UNPACKED, room)))
            episode, known = self._keep(made, size)
            self._place.add(size)
        except TooLarge as error:
            if room < MOST_UNPACKED:
                raise Refused(
                    507, "no_room", "The episode is larger than what is left of the quota.", retryable=True
                ) from None
            part.unlink()
            raise Refused(422, "bad_episode", f"This is no whole episode: {error}") from None
        except (ArchiveError, EpisodeError) as error:
            part.unlink()
            told = str(error).replace(str(made), "it")
            raise Refused(422, "bad_episode", f"This is no whole episode: {told}") from None
        except Refused:
            part.unlink()
            raise
        except OSError as error:
            if error.errno in FULL:
                raise Refused(507, "no_room", "The server's disk is full.", retryable=True) from None
            raise
        finally:
            shutil.rmtree(made, ignore_errors=True)
        done = Uploaded(upload=upload, offset=part.stat().st_size, episode=episode.id, known=known)
        write_atomically(self._done(upload), done.model_copy(update={"known": True}).model_dump_json())
        part.unlink()
        return done

    def _keep(self, made: Path, size: int) -> tuple[Episode, bool]:
        checked = CheckedEpisode(made)
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
        """Remove what has arrived of an upload.

        Raises:
            Refused: more is arriving, it is being checked, or nothing has arrived.
        """
        if upload in self._busy or upload in self._finishing:
            raise Refused(409, "upload_in_use", "A request is sending this upload.", retryable=True)
        if not self._part(upload).exists():
            raise missing("unfinished upload")
        self._part(upload).unlink()

    def remove_episode(self, id: str) -> None:
        """Delete an episode that no unfinished job uses.

        Raises:
            Refused: one does, or it is not there.
        """
        try:
            self._store.episode(id)
        except KeyError:
            raise missing("episode") from None
        if id in self._store.used_episodes():
            raise Refused(409, "in_use", "A job that has not ended uses this episode.", retryable=True)
        self._store.forget_episode(id)
        discard(self._place.root / "episodes" / id)

    def _check_room(self, more: int) -> None:
        check_room(self._place, more + sum(self._busy.values()), self._settings.quota)

    def tidy(self) -> None:
        """Remove what has not gone on for a day."""
        for path in (self._place.root / "uploads").iterdir():
            if path.stem in self._busy or time.time() - path.stat().st_mtime < KEPT:
                continue
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def check_room(place: Place, more: int, quota: int) -> None:
    """Make sure that so many bytes more fit.

    Raises:
        Refused: they don't.
    """
    try:
        place.check_room(more, quota)
    except NoRoom as error:
        raise Refused(507, "no_room", str(error.strerror), retryable=True) from None


async def _arriving(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Pass on what comes.

    Raises:
        Refused: nothing has come for a while: its sender is gone, or keeps others from sending the same.
    """
    left = aiter(pieces)
    while True:
        try:
            piece = await asyncio.wait_for(anext(left), STALLED)
        except StopAsyncIteration:
            return
        except TimeoutError:
            told = f"Nothing has come for {STALLED:g} s: go on from where the server is."
            raise Refused(408, "stalled", told, retryable=True) from None
        yield piece


async def _write_body(pieces: AsyncIterator[bytes], path: Path, most: int, room: int) -> str:
    """Write a request's body into a file; return its SHA-256.

    Args:
        pieces: of the body.
        path: of the file.
        most: bytes of an archive.
        room: bytes that are left for it.

    Raises:
        Refused: it is larger than one of these.
    """
    digest, size = hashlib.sha256(), 0
    with path.open("wb") as file:
        async for piece in _arriving(pieces):
            size += len(piece)
            if size > most:
                raise Refused(413, "too_large", f"An archive may have at most {most // 2**20:,} MiB.")
            if size > room:
                raise Refused(507, "no_room", "The archive is larger than what is left of the quota.", retryable=True)
            digest.update(piece)
            file.write(piece)
    return digest.hexdigest()
