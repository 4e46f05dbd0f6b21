"""A worker of a run, which plays some episodes at a time in one process, with one agent.

It is independent of the run's ledger: it receives requests and sends results (`Message`).
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import hashlib
import os
import queue
import re
import shutil
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from selfsurf.agents.play import (
    AgentAdapter,
    Environments,
    EpisodeRequest,
    Player,
    PlayerCallbacks,
    PlayOptions,
    Result,
    make_decider,
)
from selfsurf.agents.play.provenance import versions
from selfsurf.browser_env import AsyncBrowserEnv, Outcome, Task, shutdown
from selfsurf.browser_env.disk import write_atomically
from selfsurf.browser_env.observe.screenshot import encode_png
from selfsurf.browser_env.record.episode import EpisodeWriter
from selfsurf.envs_registry import name_of, task_of
from selfsurf.scripts.suite.plan import Plan, record_of
from selfsurf.scripts.suite.records import unwritable
from selfsurf.scripts.terminal.console import quiet_libraries

Message: TypeAlias = tuple[Any, ...]
"""Message between a run and its worker. To the run: `("ready", place)`, `("begun", ask)`, `("acting", asks)` before the
agent is queried and `("acted",)` afterwards, `("done", ask, result, record)`, `("broken", text)`. To the worker:
`("run", ask)`, `("stop",)`."""


LONGEST_NAME = 120
"""Maximum number of characters of a task's id in the name of an episode's folder."""


class Worker(PlayerCallbacks):
    """A worker that plays episodes.

    Args:
        plan: Plan of the run.
        number: Number of this worker.
        send: Sends a `Message` to the run.
        inbox: Queue of messages to this worker.
        agent: Factory of the agent; by default the plan's.
        own: Tasks given as objects, by id; each episode is played on a copy.
    """

    def __init__(
        self,
        plan: Plan,
        number: int,
        send: Callable[[Message], None],
        inbox: queue.SimpleQueue[Message],
        *,
        agent: Callable[[], AgentAdapter] | None = None,
        own: Mapping[str, Task] | None = None,
    ) -> None:
        self._plan = plan
        self._slots = plan.slots_of(number)
        self._send = send
        self._inbox = inbox
        self._make = agent or (lambda: make_decider(plan.agent, dict(plan.agent_options)))
        self._own = own or {}
        self._waiting: deque[EpisodeRequest] = deque()
        self._tasks = {str(task["id"]): task for task in plan.tasks}
        self._names = _names(list(self._tasks))
        self._screenshots: dict[EpisodeRequest, str] = {}
        self._agent: AgentAdapter | None = None

    def serve(self) -> None:
        """Load the agent, work until stopped, and close everything."""
        quiet_libraries()
        if not self.open():
            return
        try:
            while self.turn(block=True):
                pass
        finally:
            self.close()
            shutdown()

    def open(self) -> bool:
        """Load the agent; return False if it can't be made."""
        plan = self._plan
        try:
            self._agent = agent = self._make()
        except (Exception, SystemExit) as error:
            self._send(("broken", f"The agent can't be made: {type(error).__name__}: {error}"))
            return False
        self._environments = Environments(
            self._task_of, self._slots, max_episode_steps=plan.max_steps, headless=plan.headless,
            screenshot=plan.screenshots or agent.sees_images, **plan.env_options,
        )  # fmt: skip
        play_options = PlayOptions(
            episode_timeout=plan.episode_timeout, slow_agent=Outcome.TIMEOUT, agent_errors="fail", keep_steps=False
        )
        self._player = Player(
            agent, self._environments, self._slots, play_options, record=self._record, watch=self, at_end=self._picture
        )
        self._send(("ready", f"process {os.getpid()}"))
        return True

    def turn(self, *, block: bool = False) -> bool:
        """Work for a moment, or with `block` wait for an episode if idle; return False once stopped."""
        player = self._player
        try:
            if not self._receive(block=block and player.idle and not self._waiting):
                return False
            while self._waiting and player.has_room:
                player.begin(self._waiting.popleft())
            for ask, result in player.turn(0.05):
                self._done(ask, result)
        except OSError as error:  # for example a full disk, which no episode caused
            self._send(("broken", unwritable(self._plan.folder, error)))
            return False
        return True

    def close(self) -> None:
        """Close agent and environments, but not the browser."""
        if self._agent is not None:
            with contextlib.suppress(Exception):
                self._player.close()
                self._environments.close()
            self._agent.close()
            self._agent = None

    def begun(self, ask: EpisodeRequest) -> None:
        """Report that an episode has begun."""
        self._send(("begun", ask))

    def acting(self, asks: Sequence[EpisodeRequest]) -> None:
        """Report that the agent is being queried."""
        self._send(("acting", list(asks)))

    def acted(self) -> None:
        """Report that the agent has answered."""
        self._send(("acted",))

    def _receive(self, *, block: bool) -> bool:
        """Receive all pending messages; return False if one of them is `stop`."""
        with contextlib.suppress(queue.Empty):
            while True:
                kind, *content = self._inbox.get(block=block)
                if kind == "stop":
                    return False
                self._waiting.append(content[0])
                block = False
        return True

    def _task_of(self, name: str) -> Task:
        return copy.deepcopy(self._own[name]) if name in self._own else task_of(self._full_name(name))

    def _full_name(self, name: str) -> str:
        if name in self._own:
            return name
        about = self._tasks[name]
        return name_of(name, about["folder"], **about["options"])

    def _record(self, ask: EpisodeRequest) -> EpisodeWriter | None:
        if self._plan.keep_episodes == "none":
            return None
        name = self._name(ask)
        folder = Path(self._plan.folder) / "episodes" / name
        shutil.rmtree(folder, ignore_errors=True)  # left by a failed attempt, or by a killed run
        task = self._full_name(ask.job.env_id)
        about = {"episode_id": name, "env_id": ask.job.env_id, "task": task, "seed": ask.job.seed}
        options = self._plan.agent_options
        about |= {"agent": self._plan.agent, "environment": self._plan.environment, "versions": versions()}
        models = {"model": options.get("model"), "adapter": options.get("adapter")}
        return EpisodeWriter(folder, {**about, **models})

    async def _picture(self, ask: EpisodeRequest, result: Result, env: AsyncBrowserEnv) -> None:
        """Save a screenshot of the end of an unsolved episode."""
        if result.outcome in (Outcome.SOLVED, Outcome.ENV_ERROR):
            return
        name = f"unsolved/{self._name(ask)}.png"
        path = Path(self._plan.folder) / name
        with contextlib.suppress(Exception):  # the page may have crashed
            async with asyncio.timeout(10):
                pixels = await env.core.screenshot()
            path.parent.mkdir(exist_ok=True)
            write_atomically(path, encode_png(pixels))
            self._screenshots[ask] = name

    def _name(self, ask: EpisodeRequest) -> str:
        return f"{self._names[ask.job.env_id]}_{ask.job.seed}"

    def _done(self, ask: EpisodeRequest, result: Result) -> None:
        record = {**record_of(result), "screenshot": self._screenshots.pop(ask, None)}
        episode = f"episodes/{self._name(ask)}"
        if self._plan.keep_episodes == "unsolved" and result.solved:
            shutil.rmtree(Path(self._plan.folder) / episode, ignore_errors=True)
        elif self._plan.keep_episodes != "none":
            record["episode"] = episode
        self._send(("done", ask, result, record))


def _names(ids: list[str]) -> dict[str, str]:
    """Return a unique file name for each task."""
    names = [re.sub(r"[^\w.-]", "_", one) for one in ids]
    names = [
        name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}_{hashlib.sha256(id.encode()).hexdigest()[:8]}"
        for id, name in zip(ids, names, strict=True)
    ]
    unique = [name if names.count(name) == 1 else f"{name}_{number}" for number, name in enumerate(names)]
    return dict(zip(ids, unique, strict=True))
