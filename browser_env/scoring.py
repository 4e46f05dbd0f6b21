"""Asks a task for its verdict on the page."""

from __future__ import annotations

import contextlib
import time

from selfsurf.browser_env.session.page_script import document_was_replaced
from selfsurf.browser_env.session.session import Session
from selfsurf.browser_env.task import EpisodeState, Score, Task


class Scoring:
    """Asks the task for its verdict while the page is being observed."""

    def __init__(self, task: Task, session: Session, episode: EpisodeState) -> None:
        self.score = Score()
        self.seconds = 0.0
        self._task = task
        self._session = session
        self._episode = episode

    async def read(self) -> None:
        """Set `score` to the verdict and `seconds` to the time that it took."""
        start = time.perf_counter()
        try:
            self.score = await self._task.score(self._session.active.page, self._episode)
        except Exception as error:
            if not document_was_replaced(error):
                raise
            # The document was replaced just now: the new one is scored.
            with contextlib.suppress(Exception):
                await self._session.active.page.wait_for_load_state("domcontentloaded", timeout=3000)
            self.score = await self._task.score(self._session.active.page, self._episode)
        self.seconds = time.perf_counter() - start
