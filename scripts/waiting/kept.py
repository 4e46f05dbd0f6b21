"""The files of a run that may wait, in the folder `running` beside its episode, readable by its user only.

    run.json        the command's settings, needed to continue
    holder          machine and process id of the last process that held the run
    journal.jsonl   the step under way (`browser_env.record.journal`)
    answer-*.json   a person's answer to the question of a step, at a time
    browser/        the browser that outlives the process (`browser_env.session.detached`)

The folder exists for as long as the run lasts, and is deleted with the browser at the end.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from selfsurf.agents.play.resume_point import question_of
from selfsurf.browser_env.record.episode import Episode
from selfsurf.browser_env.record.journal import Journal
from selfsurf.browser_env.record.lock import FolderInUse, FolderLock
from selfsurf.browser_env.session.detached import end_browser, has_browser

LOOKS, LOOKED = 3, 0.02
"""Attempts to lock a run, and seconds between them; listing the runs locks each for a moment."""


class WaitingRun:
    """A run that can be continued by another process, found by the folder of its episode."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running = folder / "running"
        self.browser = self.running / "browser"
        self._lock: FolderLock | None = None
        self._holder = self.running / "holder"
        self._stopping = self.running / "stopping"

    @classmethod
    def begin(cls, folder: Path, settings: str) -> WaitingRun:
        """Create the files of a new run, and lock it."""
        run = cls(folder)
        run.running.mkdir(parents=True, mode=0o700)
        run.hold()
        _write(run.running / "run.json", settings)
        return run

    def hold(self) -> bool:
        """Lock the run until `let_go`, `clean` or the end of this process; return False if another process holds it."""
        for _ in range(LOOKS):
            try:
                self._lock = FolderLock(self.running)
            except FolderInUse:
                time.sleep(LOOKED)
            else:
                self._stopping.unlink(missing_ok=True)
                self._holder.write_text(f"{platform.node()} {os.getpid()}", encoding="utf8")
                return True
        return False

    def stop(self, patience: float) -> bool:
        """End the run's process as Ctrl-C would, and lock the run.

        Args:
            patience: Seconds to wait for the process to end.

        Returns:
            False if the process has not ended: it hangs, or is on another machine.
        """
        with contextlib.suppress(OSError, ValueError):
            machine, pid = self._holder.read_text(encoding="utf8").rsplit(" ", 1)
            if machine == platform.node():
                self._stopping.touch()
                os.kill(int(pid), signal.SIGTERM)
        deadline = time.monotonic() + patience
        while self.there and not self.hold():
            if time.monotonic() > deadline:
                self._stopping.unlink(missing_ok=True)
                return False
        return True

    def let_go(self) -> None:
        """Release the lock, so that another process can continue the run."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def parting(self, why: str) -> tuple[str, str]:
        """Return the outcome and the message of a process that leaves the run unfinished.

        Args:
            why: Reason for leaving the run.
        """
        if self._stopping.exists() or not self.there:
            return "stopped", f"Stopped by: selfsurf answer {self.folder} --stop"
        return "running", f"{why.rstrip('.')}. Continue with: selfsurf answer {self.folder}"

    @property
    def there(self) -> bool:
        """Whether the run has not ended."""
        return (self.running / "run.json").exists()

    @property
    def settings(self) -> str:
        """Settings of the run's command, as JSON."""
        return (self.running / "run.json").read_text(encoding="utf8")

    @property
    def question(self) -> dict[str, Any] | None:
        """The open question of the run (`step`, `time`, `kind`, `text`); None if it waits for nobody."""
        return question_of(Episode(self.folder))

    @property
    def has_browser(self) -> bool:
        """Whether the browser of the run is alive."""
        return has_browser(self.browser)

    def journal(self) -> Journal:
        """Open the run's journal of the current step."""
        return Journal(self.running / "journal.jsonl")

    def bring(self, question: Mapping[str, Any], text: str) -> bool:
        """Save the answer to a question. Return False if it has been answered already."""
        own = self.running / f"answer.{os.getpid()}"
        _write(own, json.dumps({"text": text}))
        try:
            os.link(own, self._answer(question))
        except FileExistsError:
            return False
        finally:
            own.unlink()
        return True

    def bring_instead(self, question: Mapping[str, Any], text: str) -> None:
        """Save the answer, replacing an unused one. Only the process that holds the run may call this."""
        own = self.running / f"answer.{os.getpid()}"
        _write(own, json.dumps({"text": text}))
        own.replace(self._answer(question))

    def brought(self, question: Mapping[str, Any]) -> str | None:
        """Return the saved answer to a question, or None."""
        path = self._answer(question)
        return str(json.loads(path.read_text(encoding="utf8"))["text"]) if path.exists() else None

    def clean(self) -> None:
        """Close the browser and delete the folder `running`."""
        end_browser(self.browser)
        self.let_go()
        shutil.rmtree(self.running, ignore_errors=True)

    def _answer(self, question: Mapping[str, Any]) -> Path:
        return self.running / f"answer-{question['step']}-{question['time']}.json"


def kept_runs(parent: Path) -> list[WaitingRun]:
    """Return the unfinished runs in a folder, sorted by path."""
    return [WaitingRun(path.parent.parent) for path in sorted(parent.glob("*/running/run.json"))]


def _write(path: Path, text: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
