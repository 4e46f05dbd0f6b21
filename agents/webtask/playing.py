"""One task under way: the player plays it in a thread of its own, and waits before each step until it may go on."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from selfsurf.agents.agent import Decision, Stop
from selfsurf.agents.play import Ask, Decider, Given, Job, Manner, Player, Result, Step, Watch
from selfsurf.agents.roles import Mode, RoleStep, TaskExecutor
from selfsurf.browser_env import AsyncBrowserEnv
from selfsurf.browser_env.record.episode import EpisodeWriter


@dataclass(frozen=True)
class TaskResult:
    """How far a task is."""

    done: bool
    """Whether it has ended."""
    completed: bool
    """Whether the agent said that it is complete, and the verifier agreed."""
    answer: str
    """What the agent said last."""
    steps: tuple[RoleStep, ...] = field(repr=False)
    """What was proposed in each step, and what came of it."""
    outcome: str = "running"
    """How the episode ended (`browser_env.Outcome`): `env_error` is no failure of the agent's."""
    detail: str = ""
    """Why, where the outcome alone doesn't say."""
    data: Any = None
    """The answer in the form that was asked for; None without one, and where the task is not completed."""


class Playing(Watch):
    """A task's episode.

    Args:
        agent: who acts.
        env: where; goes on with the page that it shows.
        writer: writes the episode; None: it isn't written.
        asking: held while the model is asked.
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
        """Begin, and return once the page is there and the first step may be taken."""
        self._agent.reset(self._env.task.goal or "")  # what it has of an earlier task is not this one's
        self._thread.start()
        return self._told()

    def step(self) -> TaskResult:
        """Take a step.

        Raises:
            Exception: the agent's own.
        """
        if self._result is None and self._error is None:
            self._permits.release()
            self._news.get()
        return self._told(waited=True)

    def stop(self) -> None:
        """End the task as it is, after a step that is under way; what the model decides from now on is not done."""
        self._stopped = True
        self._permits.release()

    def join(self) -> None:
        """Wait until it has ended: a model that is being asked is waited for."""
        self._thread.join()

    def stepped(self, ask: Ask, step: Step) -> None:
        """As `Watch.stepped`."""
        self._agent.conclude(step.after)

    def waiting(self, ask: Ask, question: dict[str, str]) -> None:
        """End the task: nothing here brings a person's answer.

        Raises:
            ValueError: always.
        """
        raise ValueError(f"A person is asked, and nobody brings the answer: {question['text']}")

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
            with contextlib.suppress(ValueError):  # secrets that were taken out may have left another form
                data = form.read(ended.answer)
        return TaskResult(True, completed, ended.answer, steps, ended.outcome, ended.detail, data)

    def _play(self) -> None:
        deciding = _Gate(self._agent, self._asking, self._before_step, self._check_stopped)
        player = Player(
            deciding, Given(self._env), 1, Manner(keep_steps=False), record=lambda ask: self._writer, watch=self
        )
        try:
            self._result = player.play(Ask(0, Job("Browser-v0", 0)))
        except BaseException as error:  # told to whoever waits
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


class _Gate(Decider):
    """Decides when it may, and has done only what still may be."""

    def __init__(
        self, agent: TaskExecutor, asking: threading.Lock, before: Callable[[], None], after: Callable[[], None]
    ) -> None:
        super().__init__(agent)
        self._asking, self._before, self._after = asking, before, after

    def decide(self, *args: Any, **options: Any) -> list[Decision | BaseException]:
        """As `Decider.decide`."""
        self._before()
        with self._asking:
            decisions = super().decide(*args, **options)
        self._after()
        return decisions
