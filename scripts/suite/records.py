"""The records of a run: what was asked, in `run.json`, and how each episode went, a line each in `results.jsonl`.

A record is on disk before the run goes on, so a kill at any moment loses only episodes that were under way, which run
again. A line that the kill cut off is cut off.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from selfsurf.browser_env.record.episode import write_atomically
from selfsurf.scripts.suite.plan import Key

NOTED_EVERY = 5.0
"""Seconds between two notes of how far a process has come."""

SAME = ("format", "suite", "agent", "tasks", "seeds", "max_steps")
"""What a resumed run must have in common with the run it resumes."""


class RecordsError(ValueError):
    """A folder can't be used for a run. The message says why and what to do."""


class Records:
    """The records of a run in a folder, held by one process at a time. Use it as a context manager.

    Args:
        folder: made if need be. One that holds the same run is resumed.
        about: the contents of `run.json`.

    Raises:
        RecordsError: the folder holds another run or something else, is in use, or its records are damaged.
    """

    def __init__(self, folder: Path, about: Mapping[str, Any]) -> None:
        self.folder = folder
        self.done: dict[Key, dict[str, Any]] = {}
        self._session: dict[str, Any] | None = None
        self._noted = 0.0
        if folder.exists() and not folder.is_dir():
            raise RecordsError(f"{folder} is a file; give a folder.")
        if folder.exists() and any(folder.iterdir()) and not (folder / "run.json").exists() and not _only_lock(folder):
            raise RecordsError(f"{folder} is not empty and holds no run; give another folder.")
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = (folder / "run.lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise RecordsError(f"Another process is running in {folder}.") from None
        try:
            self.about = self._agree(dict(about))
            self._read()
        except BaseException:
            self._lock.close()
            raise
        self._lines = (folder / "results.jsonl").open("a", encoding="utf8")

    def __enter__(self) -> Records:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()
        self._lock.close()
        with contextlib.suppress(OSError):
            (self.folder / "run.lock").unlink()

    def add(self, record: dict[str, Any]) -> bool:
        """Record how an episode went, and when; return False, and change nothing, if it is there already."""
        key = (str(record["task"]), int(record["seed"]))
        if key in self.done:
            return False
        record = {**record, "ended": round(time.time(), 3)}
        self._lines.write(json.dumps(record, ensure_ascii=True) + "\n")
        self._lines.flush()
        os.fsync(self._lines.fileno())
        self.done[key] = record
        if self._session is not None:
            self._session["episodes"] += 1
            if time.time() - self._noted > NOTED_EVERY:
                self.note()
        return True

    def begin(self, session: dict[str, Any]) -> None:
        """Add this process to the list `sessions` of `run.json`, which from now on says how far it has come."""
        self._session = {**session, "started": round(time.time(), 3), "seconds": 0.0, "episodes": 0}
        self.about["sessions"] = [*self.about.get("sessions", []), self._session]
        self.note()

    def note(self) -> None:
        """Write down how far this process has come."""
        assert self._session is not None
        self._noted = time.time()
        self._session["seconds"] = round(self._noted - self._session["started"], 2)
        write_atomically(self.folder / "run.json", json.dumps(self.about, indent=1))

    def _agree(self, about: dict[str, Any]) -> dict[str, Any]:
        path = self.folder / "run.json"
        about = json.loads(json.dumps(about))  # as it is when it comes back
        if not path.exists():
            write_atomically(path, json.dumps(about, indent=1))
            return about
        try:
            before: dict[str, Any] = json.loads(path.read_text(encoding="utf8"))
        except ValueError as error:
            raise RecordsError(f"{path} is damaged: {error}.") from None
        differs = [name for name in SAME if before.get(name) != about.get(name)]
        if differs:
            raise RecordsError(
                f"{self.folder} holds another run; not the same: {', '.join(differs)}. Give the same arguments to go "
                "on with it, or another folder. A task's code and pages and an agent's code count as well."
            )
        return before

    def _read(self) -> None:
        path = self.folder / "results.jsonl"
        data = path.read_bytes() if path.exists() else b""
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            with path.open("r+b") as file:
                file.truncate(len(whole))
        tasks = {task["id"] for task in self.about["tasks"]}
        for number, line in enumerate(whole.decode("utf8").splitlines(), 1):
            try:
                record = json.loads(line)
                key = (str(record["task"]), int(record["seed"]))
            except (ValueError, KeyError, TypeError):
                raise RecordsError(f"{path}, line {number} is no record; repair or remove it.") from None
            if key in self.done:
                raise RecordsError(f"{path}, line {number}: {key[0]} seed {key[1]} stands there twice; remove one.")
            if key[0] not in tasks or key[1] not in self.about["seeds"]:
                raise RecordsError(
                    f"{path}, line {number}: the run does not ask for {key[0]} seed {key[1]}; remove it."
                )
            self.done[key] = record


def _only_lock(folder: Path) -> bool:
    """Was a run killed here before it began?"""
    return all(path.name in ("run.lock", "run.json.partial") for path in folder.iterdir())
