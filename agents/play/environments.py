"""Environments that stay open between episodes: a reset takes a fraction of the time of opening one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from selfsurf.browser_env import AsyncBrowserEnv, Task, runtime
from selfsurf.browser_env.router.logged_env import env_class

CLOSING = 10.0
"""Seconds that an environment may take to close before it is abandoned."""


class Environments:
    """Environments by their ids. What is idle is kept, up to a number.

    Args:
        task_of: makes the task of an id.
        most: idle environments that are kept; of more, the one that was used longest ago is closed.
        make: what makes them, of a task and the options; by default they log attempts where `CLAW_LOG_DIR` is set.
        options: passed to every environment (`browser_env.env.make_core`).
    """

    def __init__(
        self,
        task_of: Callable[[str], Task],
        most: int,
        *,
        make: Callable[..., AsyncBrowserEnv] | None = None,
        **options: Any,
    ) -> None:
        self._task_of = task_of
        self._most = most
        self._make = make or env_class()
        self._options = {"screenshot": False, **options}
        self._alone = is_exclusive(options)
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
        if self._alone:  # an idle one holds the profile
            await _close_all([env for _, env in self._idle])
            self._idle.clear()
        return await asyncio.to_thread(self._make, task=task, **self._options)  # a device is asked of the driver

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


class Given(Environments):
    """One environment, which stays open, for one episode after the other."""

    def __init__(self, env: AsyncBrowserEnv) -> None:
        self._env = env

    async def take(self, env_id: str) -> AsyncBrowserEnv:
        """Return it."""
        return self._env

    async def give_back(self, env_id: str, env: AsyncBrowserEnv) -> None:
        """Leave it as it is."""

    def drop(self, env: AsyncBrowserEnv) -> None:
        """Leave it: its next reset mends it."""

    def close(self) -> None:
        """Leave it to whoever gave it."""


def is_exclusive(options: Mapping[str, Any]) -> bool:
    """Do these options name a profile, which one environment at a time may use?"""
    return getattr(options.get("session"), "profile", None) is not None


async def _close(env: AsyncBrowserEnv) -> None:
    with contextlib.suppress(Exception):  # what can't be closed is of no further use either
        async with asyncio.timeout(CLOSING):
            await env.close()


async def _close_all(envs: list[AsyncBrowserEnv]) -> None:
    await asyncio.gather(*map(_close, envs))
