"""Browser workers: actors with a Chromium each, in which several episodes go on at the same time."""

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

from selfsurf.agents.llm_agent import LLMAgent
from selfsurf.agents.policy import Policy
from selfsurf.browser_env.session.runtime import shutdown
from selfsurf.sdft.rollouts.engine import Engine, Manner, Times
from selfsurf.sdft.rollouts.environments import Environments
from selfsurf.sdft.rollouts.episode import Ask, Result
from selfsurf.sdft.rollouts.models import About
from selfsurf.sdft.rollouts.ray_policy import RemotePolicy


@dataclass(frozen=True)
class Setup:
    """What every browser worker is told."""

    agent_of: Callable[[Policy], LLMAgent]
    """Makes the acting agent around a policy. It travels to the worker, so it is a function of a module, or a
    `functools.partial` of one."""
    contexts: int
    """Most episodes at the same time."""
    manner: Manner
    env_options: dict[str, Any]
    call_timeout: float
    patience: float
    modules: tuple[str, ...] = field(default=("selfsurf",))
    """Imported first: they register the environments."""


class BrowserWorker:
    """An async actor around an `Engine`, which has a thread of its own.

    Args:
        setup: what to run, and how.
        policies: the policy workers.
        first: number of the one that is asked first.
        about: their model.
    """

    def __init__(self, setup: Setup, policies: Sequence[Any], first: int, about: About) -> None:
        import importlib

        for module in setup.modules:
            importlib.import_module(module)
        policy = RemotePolicy(about, policies, first, call_timeout=setup.call_timeout, patience=setup.patience)
        self._policy = policy
        self._environments = Environments(setup.contexts, **setup.env_options)
        self._engine = Engine(
            setup.agent_of(policy), self._environments, setup.contexts, setup.manner, prepare=self._prepare
        )
        self._weights: dict[int, list[Any]] = {}
        self._playing: Counter[int] = Counter()  # episodes, by the version of their weights
        self._asked: queue.SimpleQueue[tuple[Ask, Future[Result]]] = queue.SimpleQueue()
        self._under_way: list[tuple[Ask, Future[Result]]] = []
        self._stopping = False
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    async def ready(self) -> int:
        """Return the id of this process."""
        return os.getpid()

    async def times(self) -> Times:
        """Say what time has gone into so far."""
        return self._engine.times

    async def play(self, ask: Ask, weights: list[Any]) -> Result:
        """Run an episode.

        Args:
            ask: which.
            weights: a list with the reference to the weights that act.
        """
        self._weights[ask.version] = weights
        self._playing[ask.version] += 1
        ended: Future[Result] = Future()
        self._asked.put((ask, ended))
        self._engine.wake()
        try:
            return await asyncio.wrap_future(ended)
        finally:
            self._playing[ask.version] -= 1
            if not self._playing[ask.version]:
                del self._weights[ask.version], self._playing[ask.version]

    async def close(self) -> None:
        """Give up what is under way and close the browser."""
        self._stopping = True
        self._engine.wake()
        await asyncio.to_thread(self._thread.join, 20)
        await asyncio.to_thread(shutdown)

    def _prepare(self, version: int) -> None:
        self._policy.use(version, self._weights[version])

    def _serve(self) -> None:
        while not self._stopping:
            try:
                while self._engine.has_room:
                    ask, ended = self._asked.get_nowait()
                    self._under_way.append((ask, ended))
                    self._engine.begin(ask)
            except queue.Empty:
                pass
            except Exception as error:
                self._fail(error)
            try:
                for ask, result in self._engine.turn():
                    self._answer(ask, result)
            except Exception as error:
                self._fail(error)
        self._engine.close()
        with contextlib.suppress(Exception):
            self._environments.close()

    def _answer(self, ask: Ask, result: Result) -> None:
        for each in self._under_way:
            if each[0] is ask:
                self._under_way.remove(each)
                if not each[1].done():
                    each[1].set_result(result)
                return

    def _fail(self, error: Exception) -> None:
        """An error of the agent or of this program ends all that is under way: whoever asked must know."""
        self._engine.close()
        for _, ended in self._under_way:
            if not ended.done():
                ended.set_exception(error)
        self._under_way.clear()
