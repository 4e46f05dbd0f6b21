"""Environments that stay open between episodes: a reset takes a fraction of the time of opening one."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from selfsurf.browser_env import AsyncBrowserEnv
from selfsurf.browser_env.session.runtime import runtime
from selfsurf.envs_registry import task_of

CLOSING = 10.0
"""Seconds that an environment may take to close before it is left alone."""


class Environments:
    """Environments by their ids, as many idle ones as there are episodes at a time.

    Args:
        most: idle environments that are kept; what was used longest ago is closed.
        options: passed to every environment (`browser_env.env.make_core`).
    """

    def __init__(self, most: int, **options: Any) -> None:
        self._most = most
        self._options = {"screenshot": False, **options}
        self._idle: list[tuple[str, AsyncBrowserEnv]] = []

    def take(self, env_id: str) -> AsyncBrowserEnv:
        """Return an idle environment of that id, or a new one."""
        for place, (other, env) in enumerate(self._idle):
            if other == env_id:
                del self._idle[place]
                return env
        return AsyncBrowserEnv(task=task_of(env_id), **self._options)

    def give_back(self, env_id: str, env: AsyncBrowserEnv) -> None:
        """Keep an environment for the next episode of that id."""
        self._idle.append((env_id, env))
        if len(self._idle) > self._most:
            self.drop(self._idle.pop(0)[1])

    def drop(self, env: AsyncBrowserEnv) -> None:
        """Close an environment without waiting for it."""
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
