"""Environments that stay open between episodes: a reset takes a fraction of the time of opening one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from selfsurf.browser_env import AsyncBrowserEnv, Task, runtime

CLOSING = 10.0
"""Seconds that an environment may take to close before it is abandoned."""


class Environments:
    """Environments by their ids. What is idle is kept, up to a number.

    Args:
        task_of: makes the task of an id.
        most: idle environments that are kept; of more, the one that was used longest ago is closed.
        options: passed to every environment (`browser_env.env.make_core`).
    """

    def __init__(self, task_of: Callable[[str], Task], most: int, **options: Any) -> None:
        self._task_of = task_of
        self._most = most
        self._options = {"screenshot": False, **options}
        self._idle: list[tuple[str, AsyncBrowserEnv]] = []

    async def take(self, env_id: str) -> AsyncBrowserEnv:
        """Return an idle environment of that id, or a new one.

        Raises:
            Exception: the task's own, where it can't be made.
        """
        for place, (other, env) in enumerate(self._idle):
            if other == env_id:
                del self._idle[place]
                return env
        task = await asyncio.to_thread(self._task_of, env_id)  # a user's file may do anything
        return AsyncBrowserEnv(task=task, **self._options)

    async def give_back(self, env_id: str, env: AsyncBrowserEnv) -> None:
        """Keep an environment for the next episode of that id."""
        self._idle.append((env_id, env))
        if len(self._idle) > self._most:
            self.drop(self._idle.pop(0)[1])

    def drop(self, env: AsyncBrowserEnv) -> None:
        """Close an environment without waiting for it; from any thread."""
        asyncio.run_coroutine_threadsafe(_close(env), runtime().loop)

    def close(self) -> None:
        """Close all that are idle."""
        envs = [env for _, env in self._idle]
        self._idle.clear()
        if envs:
            runtime().run(_close_all(envs))


async def _close(env: AsyncBrowserEnv) -> None:
    with contextlib.suppress(Exception):  # what can't be closed is of no further use either
        async with asyncio.timeout(CLOSING):
            await env.close()


async def _close_all(envs: list[AsyncBrowserEnv]) -> None:
    await asyncio.gather(*map(_close, envs))
