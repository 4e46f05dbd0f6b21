"""The service's folder, its settings, and the disk space that it uses.

service.json  settings of the operator, which the trainer reads
service.db    jobs, episodes, adapters (`sdft.service.store`)
uploads/      partial archives
episodes/     one folder per episode, named by its content
jobs/         one folder per training run
adapters/     one folder per adapter, with its archives
trainer/      locked by a running trainer; trainer-2/ and so on for further trainers
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
"""Seconds for which a measurement of used space stays valid."""


class NoRoom(OSError):
    """The quota is used up, or the disk is full."""


class ServiceSettings(BaseModel):
    """Settings of the service's operator."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    models: dict[str, str] = Field(min_length=1)
    """Base models for training, by their names for clients; the first is the default."""
    enrich: EnrichSettings | None = None
    """Model that explains demonstrations for clients that request it; None for no explanations."""
    domains: tuple[str, ...] = ()
    """Domains on which training may play; empty for offline training only."""
    quota: int = Field(default=50 * 2**30, ge=2**20)
    """Maximum size of the whole folder in bytes."""
    largest_upload: int = Field(default=512 * 2**20, ge=2**10)
    """Maximum size of an uploaded archive in bytes."""
    keep_days: float = Field(default=30.0, gt=0)
    """Days after which unused episodes and the runs of finished jobs are removed. Adapters are kept."""
    trainings: int = Field(default=1, ge=1, le=64)
    """Maximum number of concurrent jobs."""
    ray: str | None = None
    """Address of the Ray cluster for training; None to train on this machine."""
    ray_gpus: float = Field(default=1.0, ge=0)
    """Number of a node's GPUs that a training uses."""


class ServiceFolder:
    """The service's folder.

    Args:
        root: path of the folder, created if missing.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("uploads", "episodes", "jobs", "adapters", "trainer"):
            (root / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        self._used = (0.0, 0)

    @property
    def database(self) -> Path:
        """Path of the database."""
        return self.root / "service.db"

    def settings(self) -> ServiceSettings:
        """Read the operator's settings."""
        return ServiceSettings.model_validate_json((self.root / "service.json").read_text(encoding="utf8"))

    def settle(self, settings: ServiceSettings) -> None:
        """Write the operator's settings."""
        write_atomically(self.root / "service.json", settings.model_dump_json(indent=1))

    def used(self) -> int:
        """Return the total size of all files in bytes, measured at most `_FRESH` seconds ago."""
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
        """Add bytes written since the last measurement."""
        when, found = self._used
        self._used = (when, found + more)

    def check_room(self, more: int, quota: int) -> None:
        """Check that `more` bytes fit on the disk and in the quota.

        Raises:
            NoRoom: the bytes don't fit. The message states why.
        """
        if shutil.disk_usage(self.root).free < more + SPARE:
            raise NoRoom(errno.ENOSPC, "The server's disk is full. Nothing was lost; ask the operator to make room.")
        if self.used() + more > quota:
            told = "The server's quota is used up: delete episodes or adapters, or ask the operator for more."
            raise NoRoom(errno.EDQUOT, told)

    def take_turn(self, most: int) -> FolderLock:
        """Lock one of the places for concurrent trainers, until this process ends.

        Raises:
            FolderInUse: all places are taken.
        """
        for number in range(1, most + 1):
            try:
                return FolderLock(self.root / ("trainer" if number == 1 else f"trainer-{number}"))
            except FolderInUse as error:
                taken = error
        raise taken

    def at_work(self, most: int) -> int:
        """Count the trainers that run in this folder, whoever started them."""
        free: list[FolderLock] = []
        with contextlib.suppress(FolderInUse):
            while len(free) < most:
                free.append(self.take_turn(most))
        for one in free:
            one.release()
        return most - len(free)
