"""The service's folder, what the service may do, and how much room there is.

service.json  what the operator allows; the trainer reads it
service.db    jobs, episodes, adapters (`sdft.service.store`)
uploads/      what has arrived of archives
episodes/     a folder an episode, named by its content
jobs/         a folder a training run
adapters/     a folder an adapter, with its archives
trainer/      locked by the trainer that works; trainer-2/ and so on where several do
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import time
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from selfsurf.browser_env.record.episode import write_atomically
from selfsurf.browser_env.record.lock import FolderInUse, FolderLock
from selfsurf.sdft.teacher.enrich import EnrichSettings

SPARE = 256 * 2**20
"""Bytes that stay free on the disk, for checkpoints and the database."""
_FRESH = 5.0
"""Seconds for which a count of what is used is believed."""


class NoRoom(OSError):
    """The quota is used up, or the disk is full."""


class ServiceSettings(BaseModel):
    """What the operator allows."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    models: dict[str, str] = Field(min_length=1)
    """Base models that are trained, by the names that clients give them; the first is the default."""
    enrich: EnrichSettings | None = None
    """Who explains demonstrations for clients that ask for it; None: nobody."""
    domains: tuple[str, ...] = ()
    """Domains on which training may play; empty: all training is offline."""
    quota: int = Field(default=50 * 2**30, ge=2**20)
    """Bytes of the whole folder."""
    largest_upload: int = Field(default=512 * 2**20, ge=2**10)
    """Bytes of an archive."""
    keep_days: float = Field(default=30.0, gt=0)
    """Days after which episodes that no job uses, and the runs of finished jobs, are removed. Adapters stay."""
    trainings: int = Field(default=1, ge=1, le=64)
    """Jobs that are worked on at once."""
    ray: str | None = None
    """Address of the Ray cluster that trains; None: this machine does."""
    ray_gpus: float = Field(default=1.0, ge=0)
    """GPUs of a node that a training takes."""


class Place:
    """The service's folder.

    Args:
        root: of it; is made.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("uploads", "episodes", "jobs", "adapters", "trainer"):
            (root / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        self._used = (0.0, 0)

    @property
    def database(self) -> Path:
        """Where the store is."""
        return self.root / "service.db"

    def settings(self) -> ServiceSettings:
        """Read what the operator allows."""
        return ServiceSettings.model_validate_json((self.root / "service.json").read_text(encoding="utf8"))

    def settle(self, settings: ServiceSettings) -> None:
        """Write it."""
        write_atomically(self.root / "service.json", settings.model_dump_json(indent=1))

    def used(self) -> int:
        """Return the bytes of all files, counted at most some seconds ago."""
        when, found = self._used
        if time.monotonic() - when > _FRESH or not when:
            found = 0
            for place, _, names in os.walk(self.root):
                for name in names:
                    try:
                        found += os.lstat(os.path.join(place, name)).st_size
                    except FileNotFoundError:
                        continue
            self._used = (time.monotonic(), found)
        return found

    def add(self, more: int) -> None:
        """Take note of bytes that were written since the last count."""
        when, found = self._used
        self._used = (when, found + more)

    def check_room(self, more: int, quota: int) -> None:
        """Make sure that so many bytes more fit.

        Raises:
            NoRoom: they don't. The message says why.
        """
        if shutil.disk_usage(self.root).free < more + SPARE:
            raise NoRoom(errno.ENOSPC, "The server's disk is full: nothing was lost, and its operator must make room.")
        if self.used() + more > quota:
            told = "The server's quota is used up: delete episodes or adapters, or ask its operator for more."
            raise NoRoom(errno.EDQUOT, told)

    def take_turn(self, most: int) -> FolderLock:
        """Take one of the places for trainers that are at work at once. It ends with its process.

        Raises:
            FolderInUse: all are taken.
        """
        for number in range(1, most + 1):
            try:
                return FolderLock(self.root / ("trainer" if number == 1 else f"trainer-{number}"))
            except FolderInUse as error:
                taken = error
        raise taken

    def at_work(self, most: int) -> int:
        """Count the trainers at work in this folder, whoever started them."""
        free: list[FolderLock] = []
        with contextlib.suppress(FolderInUse):
            while len(free) < most:
                free.append(self.take_turn(most))
        for one in free:
            one.release()
        return most - len(free)
