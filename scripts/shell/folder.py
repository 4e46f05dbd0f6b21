"""A shell's session on disk, which can be continued on another day.

    session.json   options, the browser's last address, and the steps of the last goal that were taken back
    state.json     cookies and storage, unless the browser has a profile of its own
    goal-1/ ...    an episode per goal

Only the user can read the first two.
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
    """A folder that is not a shell's session, or is open in another process."""


class SessionFolder:
    """The folder of a session, locked until `release`.

    Args:
        folder: Folder of an existing or a new session; None for a new one under `runs/`.

    Raises:
        SessionError: The session is damaged, the folder holds other files, or another process has it open.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or new_folder("shell")
        about = self.folder / "session.json"
        if self.folder.exists() and not about.exists() and (not self.folder.is_dir() or any(self.folder.iterdir())):
            raise SessionError(
                f"{self.folder} is not a session of `selfsurf shell`; give a new folder, or that of a session."
            )
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
        """Episode folders of the session's goals, in order."""
        found = [path for path in self.folder.glob("goal-*") if (path / "episode.json").exists()]
        return sorted(found, key=lambda path: int(path.name.partition("-")[2] or 0))

    @property
    def next_goal(self) -> Path:
        """Episode folder for the next goal."""
        last = self.goals[-1:]
        return self.folder / f"goal-{1 + int(last[0].name.partition('-')[2]) if last else 1}"

    @property
    def state(self) -> dict[str, Any] | None:
        """Saved cookies and storage; None if there are none.

        Raises:
            SessionError: The file is damaged.
        """
        path = self.folder / "state.json"
        try:
            return json.loads(path.read_text(encoding="utf8")) if path.exists() else None
        except ValueError:
            raise SessionError(f"{path} is damaged. Remove the file, and log in again.") from None

    def note(self, **more: Any) -> None:
        """Save options, the browser's address, or the steps that were taken back."""
        self.about |= redact_known(more)
        _write(self.folder / "session.json", self.about)

    def note_state(self, state: Mapping[str, Any]) -> None:
        """Save cookies and storage."""
        _write(self.folder / "state.json", state)

    def release(self) -> None:
        """Unlock the session for other shells."""
        self._lock.release()


def last_session() -> Path | None:
    """Return the session under `runs/` that was used last; None if there is none."""
    found = sorted(Path("runs").glob("*/session.json"), key=lambda path: path.stat().st_mtime)
    return found[-1].parent if found else None


def steps_so_far(folder: Path) -> list[dict[str, Any]]:
    """Return the recorded steps of a goal, preceded by those of the goal it continues, except steps taken back."""
    episode = Episode(folder)
    before = episode.meta.get("continues")
    earlier = steps_so_far(folder.parent / before["goal"])[: before["steps"]] if before else []
    return [*earlier, *episode.steps()]


def _write(path: Path, data: Any) -> None:
    """Write a file atomically, readable by its user only."""
    partial = path.with_name(path.name + ".partial")
    partial.unlink(missing_ok=True)
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf8") as file:
        json.dump(data, file, indent=1, ensure_ascii=False)
    os.replace(partial, path)
