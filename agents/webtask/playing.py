"""A running task: a player in its own thread, which waits for permission before each step."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from selfsurf.agents.agent import Decision, Stop
from selfsurf.agents.play import (
    AgentAdapter,
    EpisodeRequest,
    Job,
    Player,
    PlayerCallbacks,
    PlayOptions,
    Result,
    SingleEnvironment,
    Step,
)
from selfsurf.agents.roles import Mode, RoleStep, TaskExecutor
from selfsurf.browser_env import AsyncBrowserEnv
from selfsurf.browser_env.record.episode import EpisodeWriter


@dataclass(frozen=True)
class TaskResult:
    """The progress or result of a task."""

    done: bool
    """Whether the task has ended."""
    completed: bool
    """Whether the agent claimed to be done, and the verifier agreed."""
    answer: str
    """The agent's last message; empty while the task is running."""
    steps: tuple[RoleStep, ...] = field(repr=False)
    """Proposals and results of each step."""
    outcome: str = "running"
    """Outcome of the episode (`browser_env.Outcome`); `env_error` is not the agent's fault."""
    detail: str = ""
    """Explanation of the outcome; empty if the outcome is sufficient."""
    data: Any = None
    """The answer in the requested form; None if no form was requested or the task is not completed."""


class Playing(PlayerCallbacks):
    """Plays a task's episode in a thread.

    Args:
        agent: chooses the actions.
        env: the environment; the task continues on its current page.
        writer: records the episode; None for no record.
        asking: lock held while the model is asked.
    """

    def __init__(
        self, agent: TaskExecutor, env: AsyncBrowserEnv, writer: EpisodeWriter | None, asking: threading.Lock
    ) -> None:
        self._agent, self._env, self._writer, self._asking = agent, env, writer, asking
        self._news: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._permits = threading.Semaphore(0)
        self._stopped = False
        self._error: BaseException | None = None
        self._result: Result | None = None
        self._thread = threading.Thread(target=self._play, name="selfsurf-task", daemon=True)

    def begin(self) -> TaskResult:
        """Begin the task, and return once the page is open and the first step may be taken."""
        self._agent.reset(self._env.task.goal or "")  # forget an earlier task
        self._thread.start()
        return self._told()

    def step(self) -> TaskResult:
        """Take a step.

        Raises:
            Exception: an error of the agent's own code.
        """
        if self._result is None and self._error is None:
            self._permits.release()
            self._news.get()
        return self._told(waited=True)

    def stop(self) -> None:
        """End the task after the current step; later decisions of the model are discarded."""
        self._stopped = True
        self._permits.release()

    def join(self) -> None:
        """Wait until the task has ended, including a running call of the model."""
        self._thread.join()

    def stepped(self, ask: EpisodeRequest, step: Step) -> None:
        """Pass the observation after each step to the agent."""
        self._agent.conclude(step.after)

    def waiting(self, ask: EpisodeRequest, question: dict[str, str]) -> None:
        """End the task with an error, because this API can't deliver a person's answer.

        Raises:
            ValueError: always.
        """
        raise ValueError(f"A person is asked, but no answer can be given here: {question['text']}")

    def _told(self, *, waited: bool = False) -> TaskResult:
        if not waited:
            self._news.get()
        if self._error is not None:
            raise self._error
        task, ended = self._agent.task(), self._result
        done = task is not None and task.mode is Mode.DONE
        steps = () if task is None else tuple(task.history)
        if ended is None:
            return TaskResult(False, False, "", steps)
        completed, form, data = done and ended.outcome == "stopped", self._env.task.answer_form, None
        if completed and form is not None:
            with contextlib.suppress(ValueError):  # redacted secrets may have changed the form
                data = form.read(ended.answer)
        return TaskResult(True, completed, ended.answer, steps, ended.outcome, ended.detail, data)

    def _play(self) -> None:
        deciding = _Gate(self._agent, self._asking, self._before_step, self._check_stopped)
        player = Player(
            deciding,
            SingleEnvironment(self._env),
            1,
            PlayOptions(keep_steps=False),
            record=lambda ask: self._writer,
            watch=self,
        )
        try:
            self._result = player.play(EpisodeRequest(0, Job("Browser-v0", 0)))
        except BaseException as error:  # re-raised in the waiting thread
            self._error = error
            player.close(detail=str(error))
        finally:
            self._news.put(True)

    def _before_step(self) -> None:
        self._news.put(True)
        self._permits.acquire()
        self._check_stopped()

    def _check_stopped(self) -> None:
        if self._stopped:
            raise Stop("stopped by the user")


class _Gate(AgentAdapter):
    """A decider that waits for permission before each decision, and checks for a stop after it."""

    def __init__(
        self, agent: TaskExecutor, asking: threading.Lock, before: Callable[[], None], after: Callable[[], None]
    ) -> None:
        super().__init__(agent)
        self._asking, self._before, self._after = asking, before, after

    def decide(self, *args: Any, **options: Any) -> list[Decision | BaseException]:
        """Wait for permission, ask the agent, and discard the decisions if the task was stopped."""
        self._before()
        with self._asking:
            decisions = super().decide(*args, **options)
        self._after()
        return decisions
