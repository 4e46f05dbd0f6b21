"""Pool of environments that stay open between episodes, because a reset is much faster than opening one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from selfsurf.browser_env import AsyncBrowserEnv, Task, runtime
from selfsurf.browser_env.router.logged_env import env_class

CLOSING = 10.0
"""Timeout for closing an environment, in seconds; afterwards it is abandoned."""


class Environments:
    """A pool of environments by id. Idle environments are kept, up to a maximum number.

    Args:
        task_of: makes the task of an id.
        most: maximum number of idle environments; beyond it, the least recently used is closed.
        make: makes an environment of a task and the options; by default it logs attempts if `CLAW_LOG_DIR` is set.
        options: passed to every environment (`browser_env.environment.env.make_core`).
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
        """Return an idle environment with this id, or a new one.

        Raises:
            Exception: an error of the task's constructor.
        """
        for place, (other, env) in enumerate(self._idle):
            if other == env_id:
                del self._idle[place]
                return env
        task = await asyncio.to_thread(self._task_of, env_id)  # user code may block
        if self._alone:  # an idle environment locks the profile
            await _close_all([env for _, env in self._idle])
            self._idle.clear()
        return await asyncio.to_thread(self._make, task=task, **self._options)  # asks the driver for the device

    async def give_back(self, env_id: str, env: AsyncBrowserEnv) -> None:
        """Keep an environment for the next episode with this id."""
        self._idle.append((env_id, env))
        if len(self._idle) > self._most:
            self.drop(self._idle.pop(0)[1])

    def drop(self, env: AsyncBrowserEnv) -> None:
        """Close an environment without waiting; may be called from any thread."""
        asyncio.run_coroutine_threadsafe(_close(env), runtime().loop)

    def close(self) -> None:
        """Close all idle environments."""
        envs = [env for _, env in self._idle]
        self._idle.clear()
        if envs:
            runtime().run(_close_all(envs))


class SingleEnvironment(Environments):
    """A pool of one given environment, which is never closed and serves one episode after the other."""

    def __init__(self, env: AsyncBrowserEnv) -> None:
        self._env = env

    async def take(self, env_id: str) -> AsyncBrowserEnv:
        """Return the given environment."""
        return self._env

    async def give_back(self, env_id: str, env: AsyncBrowserEnv) -> None:
        """Do nothing: the environment stays open."""

    def drop(self, env: AsyncBrowserEnv) -> None:
        """Do nothing: the environment's next reset repairs it."""

    def close(self) -> None:
        """Do nothing: the environment belongs to the caller."""


def is_exclusive(options: Mapping[str, Any]) -> bool:
    """Whether the options name a browser profile, which only one environment at a time may use."""
    return getattr(options.get("session"), "profile", None) is not None


async def _close(env: AsyncBrowserEnv) -> None:
    with contextlib.suppress(Exception):  # abandon an environment that can't be closed
        async with asyncio.timeout(CLOSING):
            await env.close()


async def _close_all(envs: list[AsyncBrowserEnv]) -> None:
    await asyncio.gather(*map(_close, envs))
