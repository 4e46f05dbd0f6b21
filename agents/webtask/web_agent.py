"""An agent with its own browser: tasks in natural language, and single actions between them, on the same page."""

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
from selfsurf.browser_env.answer_form import AnswerForm
from selfsurf.browser_env.observe.marks import draw
from selfsurf.browser_env.record.episode import EpisodeWriter
from selfsurf.browser_env.safety.network import permission_for

T = TypeVar("T")

MAX_STEPS = 20
"""Default step limit of a task."""


_TAKEN: WeakSet[TaskExecutor] = WeakSet()
"""Executors of open agents. An executor plays one episode at a time, so agents can't share one."""

_ASKING: WeakValueDictionary[int, threading.Lock] = WeakValueDictionary()
"""Locks by `id` of the policy: agents that share a policy ask it in turn, each from its own thread."""


class Visit(Task):
    """An unjudged task on the open page; its goal is set by the agent."""

    keeps_session = True


class WebAgent:
    """An agent in a browser, made by `Webtask.create_agent`.

    Args:
        executor: carries out tasks.
        env: the browser, with `Visit` as its task.
        episodes: folder in which each task's episode is recorded; None for no record.

    Raises:
        ValueError: another open agent has this executor.
    """

    def __init__(self, executor: TaskExecutor, env: AsyncBrowserEnv, episodes: Path | None = None) -> None:
        if executor in _TAKEN:
            raise ValueError(
                "Another open agent uses this executor: close that agent, or make another executor of the same policy."
            )
        _TAKEN.add(executor)
        self.executor = executor
        self._asking = _ASKING.setdefault(id(executor.policy), threading.Lock())
        self.env = env
        # the browser needs the loop's own threads
        self._threads = ThreadPoolExecutor(thread_name_prefix="selfsurf-agent")
        self._episodes = episodes
        self._finder = Finder(executor.policy, vision=executor.vision)
        self._playing: Playing | None = None
        self._left: Playing | None = None
        """An abandoned task, whose thread may still wait for the model."""
        self._observation: Observation | None = None
        """The observation after the last single action; None after a task has used the page."""
        self._opened = self._closed = False

    def __repr__(self) -> str:
        where = "closed" if self._closed else self._observation["url"] if self._observation is not None else "not seen"
        return f"{type(self).__name__}({self.executor.policy.name}, page {where})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def execute(self, task: str, *, max_steps: int = MAX_STEPS, schema: Any = None) -> TaskResult:
        """Carry out a task on the open page, until it is done or has taken `max_steps` steps.

        Args:
            task: the task in words.
            max_steps: step limit.
            schema: the form of the answer, which becomes `TaskResult.data`: a pydantic model or another type that
                pydantic reads, or a JSON schema as a dictionary.

        Raises:
            ValueError: the task is empty, another task is running, or the agent is closed (also raised by all methods
                below); or the schema is malformed.
            Exception: an error of the agent's own code.
        """
        result = await self.begin(task, max_steps=max_steps, schema=schema)
        while not result.done:
            result = await self.run_step()
        return result

    async def begin(self, task: str, *, max_steps: int = MAX_STEPS, schema: Any = None) -> TaskResult:
        """Begin a task, to be continued by `run_step`; arguments as in `execute`.

        Raises:
            ValueError: the task is empty, or another task is running.
            EnvError: the browser, and with it the open page, is lost.
        """
        await self._idle()
        if self._lost():
            raise EnvError("The browser and its page are gone: open a page again with navigate(url).")
        if not isinstance(task, str) or not isinstance(max_steps, int) or not task.strip() or max_steps < 1:
            raise ValueError("The task must be a non-empty text, and max_steps a whole number of at least 1.")
        self.env.task.answer_form = None if schema is None else AnswerForm(schema)
        self.env.task.goal, self.env.core.max_steps = task, max_steps
        self._observation, self._opened = None, True
        self._playing = Playing(self.executor, self.env, self._writer(task), self._asking)
        return await self._wait(self._playing.begin)

    def _lost(self) -> bool:
        """Whether the browser or the page's process is lost. If so, the next page is opened as the first."""
        session = self.env.core.session
        lost = session is not None and (session.closed or session.active.crashed or session.active.page.is_closed())
        if lost:
            self._observation, self._opened = None, False
        return lost

    async def run_step(self) -> TaskResult:
        """Take the next step of the running task.

        Raises:
            ValueError: no task is running.
            Exception: an error of the agent's own code.
        """
        if self._playing is None:
            raise ValueError("No task is running: call begin(task) or execute(task).")
        return await self._wait(self._playing.step)

    async def stop(self) -> None:
        """End the running task, if any."""
        playing, self._playing = self._playing, None
        if playing is not None:
            playing.stop()
            self._left = playing
        await self._end_left()

    async def navigate(self, url: str) -> None:
        """Open an address. Local and private addresses are allowed for the first call, later only by `safety=`.

        Raises:
            ActionError: the address can't be opened.
            EnvError: the first address can't be opened.
            ValueError: a task is running; also raised by the methods below.
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
        """Return the element that matches a description, such as "the login button".

        Raises:
            LookupError: the model found no element.
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
        """Return the observation after the last action (`browser_env.Observation`).

        To observe again, call `do({"action": "wait", "ms": 0})`.
        """
        await self._idle()
        if self._observation is None:
            self.env.task.goal, self.env.core.max_steps, self.env.task.answer_form = "", None, None
            self._observation, _ = await self.env.reset(seed=0)
            self._opened = True
        return self._observation

    async def do(self, action: Any) -> Observation:
        """Execute an action of the environment, given in any accepted form, and return the next observation.

        Raises:
            ActionError: the action failed.
            EnvError: the browser or the page failed.
        """
        await self.observe()
        self.env.core.patient = True  # wait for `confirm=` functions, unlike during a task
        self._observation, _, terminated, truncated, info = await self.env.step(action)
        obs = self._observation
        if terminated or truncated:
            self._observation = None
        if info["outcome"] == "env_error":
            raise EnvError(info["outcome_detail"])
        if "waiting" in info:
            raise ActionError(f"A person is asked, but no answer can be given here: {info['waiting']['text']}")
        if obs["last_error"]:
            raise ActionError(obs["last_error"] + permission_for(obs["last_error"]))
        return obs

    async def wait(self, seconds: float) -> None:
        """Wait some seconds, then observe the page again."""
        await self.do({"action": "wait", "ms": 1000 * seconds})

    async def screenshot(self, path: str | Path | None = None, *, marked: bool = False) -> NDArray[np.uint8]:
        """Return the screenshot of the last observation, as uint8 RGB of shape (height, width, 3).

        Args:
            path: file to which the screenshot is also written, as PNG; None for none.
            marked: whether to draw the elements' boxes and ids.
        """
        obs = await self.observe()
        if "screenshot" not in obs:
            raise ValueError("There are no screenshots: create the Webtask with screenshot=True.")
        pixels = draw(obs["screenshot"], obs["elements"]) if marked else obs["screenshot"]
        if path is not None:
            from PIL import Image

            await self._in_thread(lambda: Image.fromarray(pixels).save(path, format="PNG"))
        return pixels

    async def close(self) -> None:
        """End the running task, and close the pages."""
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
            raise ValueError("A task is running: continue it with run_step(), or end it with stop().")
        await self._end_left()

    async def _end_left(self) -> None:
        if self._left is not None:
            await self._in_thread(self._left.join)
            self._left = None

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def _wait(self, work: Callable[[], TaskResult]) -> TaskResult:
        """Wait for the task's thread; cancelling the wait stops the task without waiting for the model."""
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
