"""The episode of a client that acts step by step, such as a session of `selfsurf mcp`."""

from __future__ import annotations

import logging
from pathlib import Path
from threading import Lock
from typing import Any

from selfsurf.browser_env.environment.step_results import StepResult
from selfsurf.browser_env.errors import reason
from selfsurf.browser_env.observation import Observation
from selfsurf.browser_env.outcome import Outcome
from selfsurf.browser_env.record.episode import EpisodeError, EpisodeWriter, new_folder

_log = logging.getLogger(__name__)


class ClientEpisode:
    """An episode that begins with the client's first step. A step that can't be written ends it with a warning.

    Args:
        name: prefix of the new folder under `runs/` if no folder is given.
        folder: folder of the episode; None for a new one.
        meta: metadata, as for `EpisodeWriter`.
    """

    def __init__(self, name: str, folder: Path | None = None, **meta: Any) -> None:
        self._name, self._folder, self._meta = name, folder, meta
        self._writer: EpisodeWriter | None = None
        self._last: Observation | None = None
        self._over = False
        self._lock = Lock()

    def step(self, before: Observation, action: Any, result: StepResult) -> None:
        """Write a step; may be called from any thread."""
        after, reward, _, _, info = result
        with self._lock:
            if self._over:
                return
            try:
                if self._writer is None:
                    folder = self._folder or new_folder(self._name)
                    self._writer = EpisodeWriter(folder, {"url": before["url"] or None, **self._meta})
                self._writer.step(before, action, reward=reward, info=info, after=after)
                self._last = after
            except (OSError, EpisodeError) as error:
                self._over = True
                _log.warning("The session is no longer recorded as an episode: %s", reason(error))

    def finish(self) -> Path | None:
        """End the episode as `stopped`, without a verdict; return its folder, or None if nothing was written."""
        with self._lock:
            self._over = True
            if self._writer is None:
                return None
            self._writer.finish(Outcome.STOPPED, trainable=True, after=self._last)
            return self._writer.folder
