"""Episodes under way: what the player knows of each, and how its coroutine and the caller's thread meet."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, cast

from selfsurf.agents.agent import Decision, Privileged
from selfsurf.agents.play.job import Ask, Result
from selfsurf.agents.play.manner import Manner
from selfsurf.agents.play.taken_up import TakenUp
from selfsurf.browser_env import AsyncBrowserEnv, Info, Observation, Outcome, runtime
from selfsurf.browser_env.attempts.log import FileLog
from selfsurf.browser_env.record.episode import EpisodeWriter

CLOSING = 5.0
"""Seconds that episodes which are cut off may take to end."""


class Over(Exception):
    """An episode ends here."""

    def __init__(self, outcome: Outcome, detail: str, *, trainable: bool = False, trace: str = "") -> None:
        super().__init__(detail)
        self.outcome, self.detail, self.trainable, self.trace = outcome, detail, trainable, trace


@dataclass(eq=False)
class Live:
    """An episode under way."""

    ask: Ask
    slot: int
    result: Result
    writer: EpisodeWriter | None
    begun: float = field(default_factory=time.monotonic)
    env: AsyncBrowserEnv | None = None
    log: FileLog | None = None
    """Of its attempts, where the player is to close it."""
    observation: Observation | None = None
    """The latest."""
    work: Future[None] | None = None
    task: asyncio.Task[Any] | None = None
    taken_up: TakenUp | None = None
    """What is known of it, where another process has begun it."""
    introduced: bool = False
    """Whether the agent knows of it."""
    address: str = ""
    """What to open if its browser is lost; known where a journal is kept."""
    asked: list[dict[str, str]] = field(default_factory=list)
    """In the step under way, as `Step.asked`."""
    question: asyncio.Future[str] | None = None
    """While it waits for a person: the answer to be."""
    waits_since: float | None = None
    """While it waits for a person, or for the function in their place: since when."""
    waited: float = 0.0
    """Seconds that it waited for people."""
    spent: float = 0.0
    """Of the seconds that it may take (`Manner.episode_timeout`)."""
    counted: float = 0.0
    """What it had lasted when that was counted."""

    @property
    def lasted(self) -> float:
        """Seconds since it began, without those that it waited for people."""
        now = time.monotonic()
        return now - self.begun - self.waited - (now - self.waits_since if self.waits_since is not None else 0)

    def count(self, share: float) -> None:
        """Count the time since this was last called, in which a thread got this share of a core."""
        lasted = self.lasted
        self.spent, self.counted = self.spent + (lasted - self.counted) * share, lasted

    def go_on(self) -> None:
        """No longer wait for a person."""
        if self.waits_since is not None:
            self.waited, self.waits_since = self.waited + time.monotonic() - self.waits_since, None

    @property
    def trace(self) -> dict[str, str]:
        """What its record says of the log."""
        return {} if self.log is None else {"traceId": self.log.trace_id}

    def close_log(self) -> None:
        """Close the log with what came of the episode."""
        if self.log is not None:
            self.log.close(self.result.ending, self.result.detail)

    def late(self, manner: Manner) -> Over | None:
        """What ends it if it has run out of time, on the account of what took most of it; else None."""
        limit, slow = manner.episode_timeout, manner.slow_agent
        if self.spent <= limit:
            return None
        if self.result.env_seconds > self.lasted / 2:
            detail = f"the environment took {self.result.env_seconds:.0f} of the {limit:g} s of an episode"
            return Over(Outcome.ENV_ERROR, detail)
        return Over(slow, f"not done in {limit:g} s", trainable=slow.trainable)


@dataclass(eq=False)
class Request:
    """An episode waits for the agent."""

    live: Live
    observation: Observation
    answer: asyncio.Future[tuple[Decision, Privileged | None]]
    told: Privileged | None = None
    """What the task's oracle would do."""
    since: float = field(default_factory=time.monotonic)
    began: float = field(default_factory=time.time)


def give_answer(request: Request, answer: tuple[Decision, Privileged | None] | Over) -> None:
    """Give an episode what it waits for, or end it; from the caller's thread."""

    def give() -> None:
        if request.answer.done():
            return
        if isinstance(answer, Over):
            request.answer.set_exception(answer)
        else:
            request.answer.set_result(answer)

    runtime().loop.call_soon_threadsafe(give)


UNKNOWN: tuple[float, Info, Observation] = (0.0, {}, cast(Observation, {}))
"""What is not known of a step before it has been made."""


def settle(answer: asyncio.Future[str], text: str) -> None:
    """Give an episode a person's answer; on its loop."""
    if not answer.done():
        answer.set_result(text)


async def cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """End coroutines of episodes, within a bound."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=CLOSING)
