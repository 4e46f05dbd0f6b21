"""Work in stages, each of which saves its result in a file, so that interrupted work resumes where it stopped."""

from __future__ import annotations

import contextlib
import fcntl
import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from selfsurf.browser_env.record.episode import write_atomically
from selfsurf.scripts.terminal.console import console


class MeasureError(ValueError):
    """A measurement that can't be done. The message gives the remedy."""


class Stages:
    """Results of finished stages, one JSON file each, so that no stage is repeated.

    Several processes may share a folder: a process waits for a stage that another one is working on. The operating
    system releases the lock when the process that holds it ends for any reason.
    """

    def __init__(self, out: Path) -> None:
        self.folder = out / "stages"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.seconds: dict[str, float] = {}
        """Wall-clock seconds by stage, including earlier starts."""

    def settle(self, settings: Mapping[str, Any]) -> None:
        """Save the settings of a measurement, or check that they equal the saved ones.

        Args:
            settings: Everything that the stages depend on, as plain data.

        Raises:
            MeasureError: The folder holds stages with other settings.
        """
        path, new = self.folder / "settings.json", json.loads(json.dumps(settings))
        if not any(self.folder.rglob("*.json")):
            write_atomically(path, json.dumps(new, indent=1))
            return
        old = json.loads(path.read_text(encoding="utf8")) if path.exists() else {}
        if changed := ", ".join(f"{name} ({old.get(name)} there)" for name in new if old.get(name) != new[name]):
            raise MeasureError(
                f"{self.folder.parent} holds a measurement with other settings: {changed}. Choose another folder with "
                "--out."
            )

    def once(self, name: str, work: Callable[[], Any]) -> Any:
        """Return the stage's result, running `work` if it isn't finished. A name may contain slashes."""
        path = self.folder / f"{name}.json"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with _locked(path.with_suffix(".lock"), name):
                if not path.exists():
                    with self.timed(name):
                        result = work()
                    write_atomically(path, json.dumps({"result": result, "seconds": self.seconds[name]}, indent=1))
        return self.done(name)

    def done(self, name: str) -> Any:
        """Return the stage's result, or None if the stage isn't finished."""
        path = self.folder / f"{name}.json"
        if not path.exists():
            return None
        saved = json.loads(path.read_text(encoding="utf8"))
        self.seconds[name] = saved["seconds"]
        return saved["result"]

    @contextlib.contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Time the work in this context; work that fails isn't recorded."""
        start = time.time()
        yield
        self.seconds[name] = round(time.time() - start, 1)


@contextlib.contextmanager
def _locked(path: Path, name: str) -> Iterator[None]:
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            console.print(f"Another process is working on {name}; waiting for it.")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
