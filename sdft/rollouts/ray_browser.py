"""Browser workers: Ray actors that play several concurrent episodes in one Chromium each."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from selfsurf.agents.llm.llm_agent import LLMAgent
from selfsurf.agents.play import AgentAdapter, Environments, EpisodeRequest, Player, PlayerTimes, PlayOptions, Result
from selfsurf.agents.policy import Policy
from selfsurf.browser_env.browser.runtime import shutdown
from selfsurf.browser_env.classes import Sources
from selfsurf.browser_env.patience import limited
from selfsurf.envs_registry import task_of
from selfsurf.sdft.rollouts.layout import RolloutSettings
from selfsurf.sdft.rollouts.models import PolicyProperties
from selfsurf.sdft.rollouts.ray_cluster import speak, verbose
from selfsurf.sdft.rollouts.ray_policy import RemotePolicy

SLACK = 60.0
"""Seconds beyond an episode's timeout after which its worker counts as hung."""


class Hangs(Exception):
    """A browser worker doesn't finish its episodes."""


@dataclass(frozen=True)
class Setup:
    """Configuration shared by all browser workers."""

    agent_of: Callable[[Policy], LLMAgent]
    """Function that makes the acting agent around a policy. It is pickled for the worker, so it has to be a
    module-level function or a `functools.partial` of one."""
    layout: RolloutSettings
    play_options: PlayOptions
    env_options: dict[str, Any]
    sources: Sources = field(default_factory=Sources)
    """Source code of the user's own prompt and functions that `agent_of` names."""
    verbose: bool = field(default_factory=verbose)
    """Whether the workers' log messages are shown."""


class BrowserWorker:
    """Async Ray actor that runs a `Player` in a thread of its own.

    Args:
        setup: configuration of the worker.
        policies: the policy workers.
        first: index of the policy worker that is asked first.
        about: properties of the policy workers' model.
    """

    def __init__(self, setup: Setup, policies: Sequence[Any], first: int, about: PolicyProperties) -> None:
        speak(everything=setup.verbose)
        setup.sources.use()
        self._policy = RemotePolicy(about, policies, first, setup.layout)
        contexts, agent = setup.layout.contexts, AgentAdapter(setup.agent_of(self._policy))
        self._environments = Environments(task_of, contexts, **setup.env_options)
        self._player = Player(agent, self._environments, contexts, setup.play_options, prepare=self._prepare)
        self._limit = setup.layout.episode_timeout + SLACK
        self._weights: dict[int, list[Any]] = {}
        self._sources: list[Any] = []
        self._playing: Counter[int] = Counter()  # episodes by version of their weights
        self._asked: queue.SimpleQueue[tuple[EpisodeRequest, Future[Result]]] = queue.SimpleQueue()
        self._under_way: dict[int, tuple[EpisodeRequest, Future[Result]]] = {}  # requests in progress, by `id`
        self._stopping = False
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    async def ready(self) -> int:
        """Return the id of this process."""
        return os.getpid()

    async def times(self) -> PlayerTimes:
        """Return the worker's time by activity."""
        return self._player.times

    async def play(self, ask: EpisodeRequest, weights: list[Any], sources: list[Any]) -> Result:
        """Run an episode.

        Args:
            ask: the requested episode.
            weights: a list with the Ray reference to the acting weights.
            sources: a list with the Ray reference to the source code of the episode's task
                (`browser_env.classes.Sources`).

        Raises:
            Hangs: the episode didn't end within its timeout and `SLACK`, extended on a busy CPU.
        """
        if sources != self._sources:
            (await sources[0]).use()
            self._sources = sources
        self._weights[ask.version] = weights
        self._playing[ask.version] += 1
        ended: Future[Result] = Future()
        self._asked.put((ask, ended))
        self._player.wake()
        try:
            async with limited(self._limit):
                return await asyncio.wrap_future(ended)
        except TimeoutError:
            raise Hangs(f"an episode did not end within {self._limit:g} s") from None
        finally:
            self._playing[ask.version] -= 1
            if not self._playing[ask.version]:
                del self._weights[ask.version], self._playing[ask.version]

    async def close(self) -> None:
        """Abandon the current episodes and close the browser."""
        self._stopping = True
        self._player.wake()
        await asyncio.to_thread(self._thread.join, 20)
        await asyncio.to_thread(shutdown)

    def _prepare(self, version: int) -> None:
        self._policy.use(version, self._weights[version])

    def _serve(self) -> None:
        while not self._stopping:
            try:
                while self._player.has_room:
                    ask, ended = self._asked.get_nowait()
                    self._under_way[id(ask)] = ask, ended
                    self._player.begin(ask)
            except queue.Empty:
                pass
            except Exception as error:
                self._fail(error)
            try:
                for ask, result in self._player.turn():
                    self._answer(ask, result)
            except Exception as error:
                self._fail(error)
        self._player.close()
        with contextlib.suppress(Exception):
            self._environments.close()

    def _answer(self, ask: EpisodeRequest, result: Result) -> None:
        _, ended = self._under_way.pop(id(ask))
        if not ended.done():
            ended.set_result(result)

    def _fail(self, error: Exception) -> None:
        """Fail all current episodes with an error of the agent or of this program."""
        self._player.close()
        for _, ended in self._under_way.values():
            if not ended.done():
                ended.set_exception(error)
        self._under_way.clear()
