"""An agent with a browser of its own: tasks in words, and single actions between them, on the same page."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self, TypeVar
from weakref import WeakSet, WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from selfsurf.agents.roles import Proposal, RoleTask, TaskExecutor
from selfsurf.agents.webtask.element import Finder, WebElement
from selfsurf.agents.webtask.playing import Playing, TaskResult
from selfsurf.browser_env import ActionError, AsyncBrowserEnv, EnvError, Observation, Task
from selfsurf.browser_env.goal.answer_form import AnswerForm
from selfsurf.browser_env.observe.marks import draw
from selfsurf.browser_env.record.episode import EpisodeWriter
from selfsurf.browser_env.safety.network import permission_for

T = TypeVar("T")

MAX_STEPS = 20
"""Step limit of a task that is given none."""


_TAKEN: WeakSet[TaskExecutor] = WeakSet()
"""Those of agents that are open: one plays one episode at a time."""

_ASKING: WeakValueDictionary[int, threading.Lock] = WeakValueDictionary()
"""By a policy's id, while an agent has it: agents that share one ask it in turn, each from its own thread."""


class Visit(Task):
    """The page that is open, with the goal of the moment; nobody judges it."""

    keeps_session = True


class WebAgent:
    """Made by `Webtask.create_agent`.

    Args:
        executor: who carries out tasks.
        env: the browser, with `Visit` as its task.
        episodes: a folder in which each task's episode is written; None: none is.

    Raises:
        ValueError: another open agent has this executor.
    """

    def __init__(self, executor: TaskExecutor, env: AsyncBrowserEnv, episodes: Path | None = None) -> None:
        if executor in _TAKEN:
            raise ValueError("Another agent has this executor: close that one, or make one more of the same policy.")
        _TAKEN.add(executor)
        self.executor = executor
        self._asking = _ASKING.setdefault(id(executor.policy), threading.Lock())
        self.env = env
        self._threads = ThreadPoolExecutor(thread_name_prefix="selfsurf-agent")  # the loop's own are the browser's
        self._episodes = episodes
        self._finder = Finder(executor.policy, vision=executor.vision)
        self._playing: Playing | None = None
        self._left: Playing | None = None
        """A task that nobody waits for any more, which may still wait for the model."""
        self._observation: Observation | None = None
        """Of single actions; None where a task has gone on from there."""
        self._opened = self._closed = False

    def __repr__(self) -> str:
        where = "closed" if self._closed else self._observation["url"] if self._observation is not None else "not seen"
        return f"{type(self).__name__}({self.executor.policy.name}, page {where})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def execute(self, task: str, *, max_steps: int = MAX_STEPS, schema: Any = None) -> TaskResult:
        """Carry out a task, on the page that is open, until it is done or `max_steps` are.

        Args:
            task: what is wanted, in words.
            max_steps: step limit.
            schema: the form of the answer, which becomes `TaskResult.data`: a pydantic model or another type that
                pydantic reads, or a JSON schema as a dictionary.

        Raises:
            ValueError: there is no task, another is under way, or the agent is closed; so for all that follow. Or the
                schema is malformed.
            Exception: the agent's own.
        """
        result = await self.begin(task, max_steps=max_steps, schema=schema)
        while not result.done:
            result = await self.run_step()
        return result

    async def begin(self, task: str, *, max_steps: int = MAX_STEPS, schema: Any = None) -> TaskResult:
        """Begin a task, for `run_step`; as `execute`.

        Raises:
            ValueError: there is no task, or another is under way.
            EnvError: the browser has gone since, and the page with it.
        """
        await self._idle()
        if self._lost():
            raise EnvError("The browser is gone, and its page with it: navigate(url) opens one again.")
        if not isinstance(task, str) or not isinstance(max_steps, int) or not task.strip() or max_steps < 1:
            raise ValueError("A task is said in words, and max_steps is a whole number from 1 on.")
        self.env.task.answer_form = None if schema is None else AnswerForm(schema)
        self.env.task.goal, self.env.core.max_steps = task, max_steps
        self._observation, self._opened = None, True
        self._playing = Playing(self.executor, self.env, self._writer(task), self._asking)
        return await self._wait(self._playing.begin)

    def _lost(self) -> bool:
        """Has the browser gone, or the page's own process? Then the next page is the first one again."""
        session = self.env.core.session
        lost = session is not None and (session.closed or session.active.crashed or session.active.page.is_closed())
        if lost:
            self._observation, self._opened = None, False
        return lost

    async def run_step(self) -> TaskResult:
        """Take the next step of the task that was begun.

        Raises:
            ValueError: none is under way.
            Exception: the agent's own.
        """
        if self._playing is None:
            raise ValueError("No task is under way: begin(task) one, or execute(task).")
        return await self._wait(self._playing.step)

    async def stop(self) -> None:
        """End the task that is under way, if any."""
        playing, self._playing = self._playing, None
        if playing is not None:
            playing.stop()
            self._left = playing
        await self._end_left()

    async def navigate(self, url: str) -> None:
        """Open an address. The first one may be on this machine or a private network; others only by `safety=`.

        Raises:
            ActionError: it can't be opened.
            EnvError: so for the first one.
            ValueError: a task is under way; so for all that follow.
        """
        await self._idle()
        if self._opened and not self._lost():
            await self.do({"action": "navigate", "url": url})
            return
        self.env.task.start_url = url
        try:
            await self.observe()
        finally:
            self.env.task.start_url = None

    async def select(self, description: str) -> WebElement:
        """Return the element that a description means, such as "the login button".

        Raises:
            LookupError: the model found none.
        """
        obs = await self.observe()
        task = RoleTask(description, obs)
        [proposal] = await self._in_thread(lambda: self._find(task))
        result = next(iter(self._finder.execute(task, proposal)), None)
        there = {str(element["id"]): element for element in obs["elements"]}
        if result is None or result.tool != "pick" or result.said not in there:
            why = proposal.error or (result.said if result else "")
            raise LookupError(f"No element was found for {description!r}: {why}")
        return WebElement.of(there[result.said], self)

    async def observe(self) -> Observation:
        """Return what was on the page after the last action (`browser_env.Observation`).

        `do({"action": "wait", "ms": 0})` looks anew.
        """
        await self._idle()
        if self._observation is None:
            self.env.task.goal, self.env.core.max_steps, self.env.task.answer_form = "", None, None
            self._observation, _ = await self.env.reset(seed=0)
            self._opened = True
        return self._observation

    async def do(self, action: Any) -> Observation:
        """Carry out any action of the environment, in any form, and return what is there then.

        Raises:
            ActionError: it did not work.
            EnvError: the browser or the page failed.
        """
        await self.observe()
        self.env.core.patient = True  # a task's player is not: it waits for who confirms by itself
        self._observation, _, terminated, truncated, info = await self.env.step(action)
        obs = self._observation
        if terminated or truncated:
            self._observation = None
        if info["outcome"] == "env_error":
            raise EnvError(info["outcome_detail"])
        if "waiting" in info:
            raise ActionError(f"A person is asked, and nobody brings the answer: {info['waiting']['text']}")
        if obs["last_error"]:
            raise ActionError(obs["last_error"] + permission_for(obs["last_error"]))
        return obs

    async def wait(self, seconds: float) -> None:
        """Wait, then look at the page again."""
        await self.do({"action": "wait", "ms": 1000 * seconds})

    async def screenshot(self, path: str | Path | None = None, *, marked: bool = False) -> NDArray[np.uint8]:
        """Return the screenshot (height, width, 3) of what was seen last.

        Args:
            path: where it is also written, as PNG.
            marked: with the elements' boxes and ids.
        """
        obs = await self.observe()
        if "screenshot" not in obs:
            raise ValueError("There are no screenshots: make the Webtask with screenshot=True.")
        pixels = draw(obs["screenshot"], obs["elements"]) if marked else obs["screenshot"]
        if path is not None:
            from PIL import Image

            await self._in_thread(lambda: Image.fromarray(pixels).save(path, format="PNG"))
        return pixels

    async def close(self) -> None:
        """End what is under way, and close the pages."""
        await self.stop()
        await self.env.close()
        self._closed = True
        self._threads.shutdown(wait=False)
        _TAKEN.discard(self.executor)

    def _find(self, task: RoleTask) -> list[Proposal]:
        with self._asking:
            return self._finder.propose([task])

    async def _idle(self) -> None:
        if self._closed:
            raise ValueError("The agent is closed: create another one.")
        if self._playing is not None:
            raise ValueError("A task is under way: go on with run_step(), or stop() it.")
        await self._end_left()

    async def _end_left(self) -> None:
        if self._left is not None:
            await self._in_thread(self._left.join)
            self._left = None

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def _wait(self, work: Callable[[], TaskResult]) -> TaskResult:
        """Wait for the thread that plays; who stops waiting ends the task, without waiting for the model."""
        playing = self._playing
        try:
            result = await self._in_thread(work)
        except asyncio.CancelledError:
            if playing is not None and playing is self._playing:
                playing.stop()
                self._playing, self._left = None, playing
            raise
        except BaseException:
            self._playing = None
            raise
        if result.done:
            self._playing = None
        return result

    def _writer(self, task: str) -> EpisodeWriter | None:
        if self._episodes is None:
            return None
        self._episodes.mkdir(parents=True, exist_ok=True)
        known = (one.name.removeprefix("task-") for one in self._episodes.glob("task-*"))
        number = 1 + max((int(one) for one in known if one.isdecimal()), default=0)
        return EpisodeWriter(
            self._episodes / f"task-{number}",
            {"env_id": "Browser-v0", "goal": task, "agent": "roles", "model": self.executor.policy.name, "seed": 0},
        )
