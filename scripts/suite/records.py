"""Records of a run: the request in `run.json`, and the result of each episode as a line of `results.jsonl`.

A record is on disk before the run continues, so a kill loses only unfinished episodes, which are run again. A line that
the kill left incomplete is removed. An `env_error` is no verdict: a later line supersedes it.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from selfsurf.browser_env import Outcome
from selfsurf.browser_env.disk import FULL, NoRoom
from selfsurf.browser_env.record.episode import write_atomically
from selfsurf.browser_env.record.lock import FolderInUse, FolderLock
from selfsurf.scripts.report.reading import RERUNS
from selfsurf.scripts.suite.plan import Key

NOTED_EVERY = 5.0
"""Seconds between two updates of the progress in `run.json`."""

SAME = ("format", "suite", "agent", "max_steps", "environment")
"""Fields of `run.json` that a resumed run must match. Tasks and seeds may be added."""

SAME_TASK = ("id", "split", "groups", "options", "sha256")
"""Fields that identify a task."""


def unwritable(folder: Path | str, error: OSError) -> str:
    """Return why a run's folder can't be written, and for a full disk how to resume."""
    if error.errno in FULL:
        return str(NoRoom(Path(folder), "the same command resumes."))
    return f"{folder} can't be written: {error}."


class RecordsError(ValueError):
    """A folder that can't be used for a run. The message gives the reason and the remedy."""


class Records:
    """The records of a run in a folder, locked by one process at a time. A context manager.

    Args:
        folder: Folder of the run, created if necessary. The same run is resumed, and extended by further tasks and
            seeds.
        about: Contents of `run.json`.

    Raises:
        RecordsError: The folder holds another run or other files, is in use, or its records are damaged.
    """

    def __init__(self, folder: Path, about: Mapping[str, Any]) -> None:
        self.folder = folder
        self.done: dict[Key, dict[str, Any]] = {}
        """Latest record of each episode."""
        self._lines_of: Counter[Key] = Counter()
        self._session: dict[str, Any] | None = None
        self._noted = 0.0
        self._code = {name: about[name] for name in ("versions", "git") if name in about}
        if folder.exists() and not folder.is_dir():
            raise RecordsError(f"{folder} is a file; give a folder.")
        if folder.exists() and any(folder.iterdir()) and not (folder / "run.json").exists() and not _unbegun(folder):
            raise RecordsError(f"{folder} is not empty and holds no run; give another folder.")
        try:
            self._lock = FolderLock(folder)
        except FolderInUse as error:
            raise RecordsError(str(error)) from None
        try:
            self.about = self._agree(dict(about))
            self._read()
        except BaseException:
            self._lock.release()
            raise
        self._lines = (folder / "results.jsonl").open("a", encoding="utf8")

    def __enter__(self) -> Records:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()
        self._lock.release()

    def played(self, key: Key) -> bool:
        """Whether an episode was played to its end."""
        return key in self.done and self.done[key]["outcome"] != Outcome.ENV_ERROR

    def unjudged(self, key: Key) -> bool:
        """Whether an episode was played to its end without a judge."""
        return self.played(key) and not self.done[key].get("judged", True)

    def open(self, key: Key) -> bool:
        """Whether an episode still has to be run: it has not been played to its end, nor been given up."""
        return not self.played(key) and self._lines_of[key] <= RERUNS

    @property
    def worked(self) -> set[str]:
        """Tasks with at least one episode played to its end."""
        return {task for task, _ in filter(self.played, self.done)}

    @property
    def broken(self) -> set[str]:
        """Tasks that only failed while others worked: an episode of another task was played to its end afterwards."""
        ended = {key: record.get("ended", 0.0) for key, record in self.done.items()}
        last = max((ended[key] for key in filter(self.played, ended)), default=0.0)
        return {task for (task, _), when in ended.items() if when < last} - self.worked

    def add(self, record: dict[str, Any]) -> bool:
        """Append a record with its time; return False, changing nothing, if the episode was already played."""
        key = (str(record["task"]), int(record["seed"]))
        if self.played(key):
            return False
        record = {**record, "ended": round(time.time(), 3)}
        self._lines.write(json.dumps(record, ensure_ascii=True) + "\n")
        self._lines.flush()
        os.fsync(self._lines.fileno())
        self._keep(key, record)
        if self._session is not None:
            self._session["episodes"] += 1
            if time.time() - self._noted > NOTED_EVERY:
                self.note()
        return True

    def begin(self, session: dict[str, Any]) -> None:
        """Add this process to the `sessions` of `run.json`, where its progress is recorded from now on.

        The session has `versions` and `git` of its own if they differ from those of the process that began the run.
        """
        other = {name: value for name, value in self._code.items() if value != self.about.get(name)}
        self._session = {
            **session, **other, "started": round(time.time(), 3), "seconds": 0.0, "episodes": 0, "lost": [],
        }  # fmt: skip
        self.about["sessions"] = [*self.about.get("sessions", []), self._session]
        self.note()

    def note(self, **more: Any) -> None:
        """Write the progress of this process, and further facts about it, to `run.json`."""
        assert self._session is not None
        self._noted = time.time()
        self._session.update(more, seconds=round(self._noted - self._session["started"], 2))
        self._write(self.about)

    def lost(self, what: dict[str, Any]) -> None:
        """Record the loss of a worker in `run.json`."""
        assert self._session is not None
        self.note(lost=[*self._session["lost"], {**what, "seconds": round(time.time() - self._session["started"], 2)}])

    def _agree(self, about: dict[str, Any]) -> dict[str, Any]:
        path = self.folder / "run.json"
        about = json.loads(json.dumps(about))  # a JSON round trip, for comparison with the saved file
        if not path.exists():
            self._write(about)
            return about
        try:
            before: dict[str, Any] = json.loads(path.read_text(encoding="utf8"))
        except ValueError as error:
            raise RecordsError(f"{path} is damaged: {error}.") from None
        there = {task["id"]: task for task in before.get("tasks", ())}
        changed = [each["id"] for each in about["tasks"] if _differ(there.get(each["id"], each), each)]
        differs = [one for name in SAME for one in _differences(name, before.get(name), about.get(name))]
        differs += [f"the task {name}" for name in changed[:3]] + ["..."] * (len(changed) > 3)
        if differs:
            raise RecordsError(
                f"{self.folder} holds a run with other arguments: {', '.join(differs)}. Give the same arguments to "
                "resume the run, or another folder. The code and pages of a task and the code of an agent count as "
                "arguments."
            )
        tasks = [each for each in about["tasks"] if each["id"] not in there]
        seeds = [seed for seed in about["seeds"] if seed not in before["seeds"]]
        if tasks or seeds:
            before["tasks"] += tasks
            before["seeds"] += seeds
            self._write(before)
        return before

    def _write(self, about: dict[str, Any]) -> None:
        write_atomically(self.folder / "run.json", json.dumps(about, indent=1))

    def _keep(self, key: Key, record: dict[str, Any]) -> None:
        self.done[key] = record
        self._lines_of[key] += 1

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
                record["outcome"]
            except (ValueError, KeyError, TypeError):
                raise RecordsError(f"{path}, line {number} is not a record; repair or remove the line.") from None
            if self.played(key):
                raise RecordsError(f"{path}, line {number}: {key[0]} seed {key[1]} is listed twice; remove one line.")
            if key[0] not in tasks or key[1] not in self.about["seeds"]:
                raise RecordsError(
                    f"{path}, line {number}: the run does not ask for {key[0]} seed {key[1]}; remove the line."
                )
            self._keep(key, record)


def _differences(name: str, before: Any, now: Any) -> list[str]:
    """Return the differences between two values, entry by entry if they are tables."""
    if before == now:
        return []
    if isinstance(before, dict) or isinstance(now, dict):
        old, new = before or {}, now or {}
        if isinstance(old, dict) and isinstance(new, dict):
            keys = dict.fromkeys((*old, *new))
            return [one for key in keys for one in _differences(f"{name}.{key}", old.get(key), new.get(key))]
    if name.endswith("sha256"):
        return [name]
    was, is_now = ("not given" if value is None else json.dumps(value) for value in (before, now))
    return [f"{name} (was {was}, is {is_now})"]


def _differ(task: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return any(task.get(name) != other.get(name) for name in SAME_TASK)


def _unbegun(folder: Path) -> bool:
    """Whether a folder contains only the traces of a run that was killed before it began."""
    return all(path.name == "run.lock" or path.suffix == ".partial" for path in folder.iterdir())
