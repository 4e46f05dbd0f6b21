"""The service's database: jobs with events, episodes, adapters, leases and stored responses, in one SQLite file.

Server and trainer both write to it, in separate processes. Data is on disk when a call returns.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from selfsurf.sdft.service.schemas import (
    FINISHED,
    Adapter,
    Episode,
    Event,
    Job,
    ListedEpisode,
    Status,
    TrainRequest,
)

MOST_QUEUED = 100
"""Maximum number of queued jobs."""
MOST_EVENTS = 20_000
"""Maximum number of a job's events that are kept, the newest."""
ANSWERS_KEPT = 86_400.0
"""Seconds for which a repeated request gets its first response. Responses of /train are kept forever."""

_SCHEMA = """
create table if not exists jobs (
  number integer primary key autoincrement, id text unique not null, status text not null, created real not null,
  started real, ended real, adapter text not null, model text not null, step integer not null default 0,
  steps integer, attempts integer not null default 0, figures text not null default '{}', error text,
  cancelling integer not null default 0, request text not null, pid integer, heartbeat real);
create index if not exists jobs_by_status on jobs (status);
create table if not exists events (
  job text not null, number integer not null, time real not null, type text not null, data text not null,
  primary key (job, number)) without rowid;
create table if not exists episodes (
  number integer primary key autoincrement, id text unique not null, created real not null, bytes integer not null,
  steps integer not null, solved integer not null, goal text not null default '');
create table if not exists adapters (
  number integer primary key autoincrement, name text unique not null, about text not null);
create table if not exists leases (id text primary key, adapter text not null, expires real not null);
create table if not exists answers (
  key text primary key, request text not null, status integer not null, body text not null, time real not null);
"""


class QueueFull(RuntimeError):
    """Too many jobs are queued."""


class Store:
    """Connection to the database, one per process, usable from any thread.

    Args:
        path: path of the file.
    """

    def __init__(self, path: Path) -> None:
        self._lock = threading.RLock()
        self._inside = False
        self.importing: set[str] = set()
        """Names of adapters that are being imported."""
        self._db = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
        self._db.row_factory = sqlite3.Row
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "journal_size_limit=16777216", "foreign_keys=ON"):
            self._db.execute(f"pragma {pragma}")
        self._db.executescript(_SCHEMA)
        if "goal" not in {row["name"] for row in self._rows("pragma table_info(episodes)")}:  # an older version's file
            with contextlib.suppress(sqlite3.OperationalError):  # another process was faster
                self._db.execute("alter table episodes add column goal text not null default ''")

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Make all writes within this context atomic."""
        with self._lock:
            if self._inside:
                yield
                return
            self._db.execute("begin immediate")
            self._inside = True
            try:
                yield
                self._db.execute("commit")
            except BaseException:
                self._db.execute("rollback")
                raise
            finally:
                self._inside = False

    def _rows(self, sql: str, *values: Any) -> list[sqlite3.Row]:
        with self._lock:
            return self._db.execute(sql, values).fetchall()

    def _row(self, sql: str, *values: Any) -> sqlite3.Row | None:
        found = self._rows(sql, *values)
        return found[0] if found else None

    def _page(self, table: str, key: str, after: str | None, limit: int) -> tuple[list[sqlite3.Row], bool]:
        """Return the newest rows that are older than the row with the key, and whether more exist."""
        first = 2**62 if after is None else -1
        if after is not None and (row := self._row(f"select number from {table} where {key} = ?", after)):
            first = row["number"]
        rows = self._rows(f"select * from {table} where number < ? order by number desc limit ?", first, limit + 1)
        return rows[:limit], len(rows) > limit

    # Jobs

    def add_job(self, request: TrainRequest, model: str) -> Job:
        """Queue a job, with a unique adapter name.

        Raises:
            QueueFull: too many jobs are queued.
        """
        with self.transaction():
            if self.queued() >= MOST_QUEUED:
                raise QueueFull
            name, number = request.adapter, 1
            while self.has_adapter(name):
                number += 1
                name = f"{request.adapter[:56]}-{number}"
            job = f"job-{uuid.uuid4().hex[:16]}"
            self._db.execute(
                "insert into jobs (id, status, created, adapter, model, request) values (?, 'queued', ?, ?, ?, ?)",
                (job, time.time(), name, model, request.model_dump_json()),
            )
            self.add_event(job, "status", {"status": "queued"})
            return self.job(job)

    def job(self, id: str) -> Job:
        """Return a job.

        Raises:
            KeyError: the job doesn't exist.
        """
        row = self._row("select * from jobs where id = ?", id)
        if row is None:
            raise KeyError(id)
        return _job(row)

    def jobs(self, after: str | None, limit: int) -> tuple[list[Job], bool]:
        """Return a page of the list of jobs, newest first, and whether more exist."""
        rows, more = self._page("jobs", "id", after, limit)
        return [_job(row) for row in rows], more

    def queued(self) -> int:
        """Count the queued jobs."""
        row = self._row("select count(*) from jobs where status = 'queued'")
        return row[0] if row else 0

    def counts(self) -> dict[str, int]:
        """Count the jobs by status."""
        return {row[0]: row[1] for row in self._rows("select status, count(*) from jobs group by status")}

    def unfinished(self) -> list[tuple[Job, int | None, float]]:
        """Return queued and running jobs, oldest first, with process id and last heartbeat."""
        rows = self._rows("select * from jobs where status in ('queued', 'running') order by number")
        return [(_job(row), row["pid"], row["heartbeat"] or 0.0) for row in rows]

    def change_job(self, id: str, **columns: Any) -> None:
        """Change columns of a job. A change of status also adds an event."""
        with self.transaction():
            names = ", ".join(f"{name} = ?" for name in columns)
            self._db.execute(f"update jobs set {names} where id = ?", (*columns.values(), id))
            if "status" in columns:
                told = {"status": columns["status"]}
                if columns.get("error"):
                    told["error"] = json.loads(columns["error"])
                self.add_event(id, "status", told)

    def beat(self, id: str) -> bool:
        """Record a trainer's heartbeat; return whether its job is to be cancelled."""
        with self.transaction():
            self._db.execute("update jobs set heartbeat = ? where id = ?", (time.time(), id))
            row = self._row("select cancelling from jobs where id = ?", id)
            return row is None or bool(row["cancelling"])

    # Events

    def add_event(self, job: str, type: str, data: Mapping[str, Any]) -> None:
        """Add an event, numbered within its job."""
        with self.transaction():
            row = self._row("select coalesce(max(number), 0) + 1 from events where job = ?", job)
            number = row[0] if row else 1
            self._db.execute(
                "insert into events values (?, ?, ?, ?, ?)", (job, number, time.time(), type, json.dumps(data))
            )
            self._db.execute("delete from events where job = ? and number <= ?", (job, number - MOST_EVENTS))

    def events(self, job: str, after: int, limit: int = 500) -> list[Event]:
        """Return the events of a job that follow a number."""
        rows = self._rows(
            "select * from events where job = ? and number > ? order by number limit ?", job, after, limit
        )
        return [Event(**{**{key: row[key] for key in ("number", "time", "type")}, "data": json.loads(row["data"])})
                for row in rows]  # fmt: skip

    # Episodes

    def add_episode(self, one: Episode, goal: str = "") -> None:
        """Add an episode with its goal. Adding an existing one renews its creation time."""
        with self.transaction():
            self._db.execute(
                "insert into episodes (id, created, bytes, steps, solved, goal) values (?, ?, ?, ?, ?, ?)"
                " on conflict (id) do update set created = excluded.created, goal = excluded.goal",
                (one.id, one.created, one.bytes, one.steps, one.solved, goal),
            )

    def episode(self, id: str) -> Episode:
        """Return an episode.

        Raises:
            KeyError: the episode doesn't exist.
        """
        row = self._row("select * from episodes where id = ?", id)
        if row is None:
            raise KeyError(id)
        return Episode(**{name: row[name] for name in Episode.model_fields})

    def episodes(self, after: str | None, limit: int) -> tuple[list[ListedEpisode], bool]:
        """Return a page of the list of episodes, newest first, and whether more exist."""
        rows, more = self._page("episodes", "id", after, limit)
        return [ListedEpisode(**{name: row[name] for name in ListedEpisode.model_fields}) for row in rows], more

    def used_episodes(self) -> set[str]:
        """Return the ids of the episodes that unfinished jobs use."""
        return {one for job, _, _ in self.unfinished() for one in job.request.episodes}

    def idle_episodes(self, before: float) -> list[str]:
        """Return the ids of the episodes created before a time that no unfinished job uses."""
        used = self.used_episodes()
        rows = self._rows("select id from episodes where created < ?", before)
        return [row["id"] for row in rows if row["id"] not in used]

    def forget_episode(self, id: str) -> None:
        """Delete an episode from the database."""
        with self.transaction():
            self._db.execute("delete from episodes where id = ?", (id,))

    # Adapters

    def put_adapter(self, one: Adapter) -> None:
        """Add or update an adapter."""
        with self.transaction():
            self._db.execute(
                "insert into adapters (name, about) values (?1, ?2) on conflict (name) do update set about = ?2",
                (one.name, one.model_dump_json(exclude={"leases"})),
            )

    def adapter(self, name: str) -> Adapter:
        """Return an adapter.

        Raises:
            KeyError: the adapter doesn't exist.
        """
        row = self._row("select * from adapters where name = ?", name)
        if row is None:
            raise KeyError(name)
        return self._adapter(row)

    def has_adapter(self, name: str) -> bool:
        """Whether an adapter, a job or an import uses the name."""
        asked = "select 1 from jobs where adapter = ?1 union select 1 from adapters where name = ?1"
        return name in self.importing or self._row(asked, name) is not None

    def adapters(self, after: str | None, limit: int) -> tuple[list[Adapter], bool]:
        """Return a page of the list of adapters, newest first, and whether more exist."""
        rows, more = self._page("adapters", "name", after, limit)
        return [self._adapter(row) for row in rows], more

    def forget_adapter(self, name: str) -> None:
        """Delete an adapter from the database."""
        with self.transaction():
            self._db.execute("delete from adapters where name = ?", (name,))

    def _adapter(self, row: sqlite3.Row) -> Adapter:
        held = self._row("select count(*) from leases where adapter = ? and expires > ?", row["name"], time.time())
        return Adapter.model_validate_json(row["about"]).model_copy(update={"leases": held[0] if held else 0})

    def lease(self, adapter: str, seconds: float) -> tuple[str, float]:
        """Lease an adapter; return the lease's id and expiry time."""
        with self.transaction():
            self._db.execute("delete from leases where expires < ?", (time.time(),))
            lease, expires = uuid.uuid4().hex, time.time() + seconds
            self._db.execute("insert into leases values (?, ?, ?)", (lease, adapter, expires))
            return lease, expires

    def release(self, adapter: str, lease: str) -> bool:
        """End a lease; return whether it existed."""
        with self.transaction():
            done = self._db.execute("delete from leases where id = ? and adapter = ?", (lease, adapter))
            return done.rowcount > 0

    # Responses

    def answered(self, key: str) -> tuple[str, int, Any] | None:
        """Return the request stored under a key, and the status and body of its response."""
        row = self._row("select * from answers where key = ?", key)
        return None if row is None else (row["request"], row["status"], json.loads(row["body"]))

    def answer(self, key: str, request: str, status: int, body: Any) -> None:
        """Store a response."""
        with self.transaction():
            self._db.execute(
                "insert or replace into answers values (?, ?, ?, ?, ?)",
                (key, request, status, json.dumps(body), time.time()),
            )

    def tidy(self) -> None:
        """Delete old responses and expired leases, and truncate the write-ahead log."""
        with self._lock:
            now = time.time()
            self._db.execute(
                "delete from answers where time < ? and request not like 'POST /train %'", (now - ANSWERS_KEPT,)
            )
            self._db.execute("delete from leases where expires < ?", (now,))
            self._db.execute("pragma wal_checkpoint(truncate)")


def _job(row: sqlite3.Row) -> Job:
    given = {name: row[name] for name in Job.model_fields if name not in ("figures", "error", "request", "cancelling")}
    status: Status = row["status"]
    return Job(
        **given,
        figures=json.loads(row["figures"]),
        error=json.loads(row["error"]) if row["error"] else None,
        cancelling=bool(row["cancelling"]) and status not in FINISHED,
        request=TrainRequest.model_validate_json(row["request"]),
    )
