"""A shell's session on disk, which another day can go on with.

    session.json   how it was begun, where its browser was, and what of the last goal was taken back
    state.json     cookies and storage, unless the browser has a profile of its own
    goal-1/ ...    an episode for each goal

The first two are for their user's eyes only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from selfsurf.browser_env.record.episode import Episode, new_folder
from selfsurf.browser_env.record.lock import FolderInUse, FolderLock
from selfsurf.browser_env.safety.secrets import redact_known

FORMAT = 1


class SessionError(ValueError):
    """A folder is no session of a shell, or another process has it."""


class SessionFolder:
    """The folder of a session, held until `release`.

    Args:
        folder: of one that there is, or of a new one; None: a new one under `runs/`.

    Raises:
        SessionError: it is damaged, holds something else, or another process has it.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or new_folder("shell")
        about = self.folder / "session.json"
        if self.folder.exists() and not about.exists() and (not self.folder.is_dir() or any(self.folder.iterdir())):
            raise SessionError(f"{self.folder} is no session of `selfsurf shell`; give a new folder, or one of its.")
        try:
            self._lock = FolderLock(self.folder)
        except FolderInUse:
            raise SessionError(f"Another shell has {self.folder} open.") from None
        self.about: dict[str, Any] = {"format": FORMAT, "settings": {}, "address": "", "last": {}}
        if about.exists():
            try:
                self.about |= json.loads(about.read_text(encoding="utf8"))
            except (ValueError, TypeError):
                self.release()
                raise SessionError(f"{about} is damaged.") from None
        if self.about["format"] != FORMAT:
            self.release()
            raise SessionError(f"{about} has a format that this version can't read.")

    @property
    def goals(self) -> list[Path]:
        """The folders of its goals, in their order."""
        found = [path for path in self.folder.glob("goal-*") if (path / "episode.json").exists()]
        return sorted(found, key=lambda path: int(path.name.partition("-")[2] or 0))

    @property
    def next_goal(self) -> Path:
        """The folder of the next one."""
        last = self.goals[-1:]
        return self.folder / f"goal-{1 + int(last[0].name.partition('-')[2]) if last else 1}"

    @property
    def state(self) -> dict[str, Any] | None:
        """Cookies and storage, as they were.

        Raises:
            SessionError: the file is damaged.
        """
        path = self.folder / "state.json"
        try:
            return json.loads(path.read_text(encoding="utf8")) if path.exists() else None
        except ValueError:
            raise SessionError(f"{path} is damaged: remove it, and log in again.") from None

    def note(self, **more: Any) -> None:
        """Write down how it was begun, where the browser is, or what was taken back."""
        self.about |= redact_known(more)
        _write(self.folder / "session.json", self.about)

    def note_state(self, state: Mapping[str, Any]) -> None:
        """Write down cookies and storage."""
        _write(self.folder / "state.json", state)

    def release(self) -> None:
        """Let another shell have it."""
        self._lock.release()


def last_session() -> Path | None:
    """Return the session under `runs/` that was used last."""
    found = sorted(Path("runs").glob("*/session.json"), key=lambda path: path.stat().st_mtime)
    return found[-1].parent if found else None


def steps_so_far(folder: Path) -> list[dict[str, Any]]:
    """Return the recorded steps of a goal, after those of the goal that it goes on with, less what was taken back."""
    episode = Episode(folder)
    before = episode.meta.get("continues")
    earlier = steps_so_far(folder.parent / before["goal"])[: before["steps"]] if before else []
    return [*earlier, *episode.steps()]


def _write(path: Path, data: Any) -> None:
    """Write a file that only its user can read, whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    partial.unlink(missing_ok=True)
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf8") as file:
        json.dump(data, file, indent=1, ensure_ascii=False)
    os.replace(partial, path)
