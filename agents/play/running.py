"""State of running episodes, and the communication between their coroutines and the caller's thread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, cast

from selfsurf.agents.agent import Decision, Privileged
from selfsurf.agents.play.job import EpisodeRequest, Result, Step
from selfsurf.agents.play.options import PlayOptions
from selfsurf.agents.play.provenance import decision_record, intended, policy_record
from selfsurf.agents.play.resume_point import ResumePoint
from selfsurf.browser_env import AsyncBrowserEnv, Info, Observation, Outcome, runtime
from selfsurf.browser_env.attempts.log import FileLog
from selfsurf.browser_env.record.episode import EpisodeWriter

CLOSING = 5.0
"""Timeout for cancelled episodes to end, in seconds."""


class EpisodeOver(Exception):
    """Raised to end an episode with an outcome."""

    def __init__(self, outcome: Outcome, detail: str, *, trainable: bool = False, trace: str = "") -> None:
        super().__init__(detail)
        self.outcome, self.detail, self.trainable, self.trace = outcome, detail, trainable, trace


@dataclass(eq=False)
class RunningEpisode:
    """A running episode."""

    ask: EpisodeRequest
    slot: int
    result: Result
    writer: EpisodeWriter | None
    begun: float = field(default_factory=time.monotonic)
    env: AsyncBrowserEnv | None = None
    log: FileLog | None = None
    """Log of the episode's attempts, if the player has to close it; else None."""
    observation: Observation | None = None
    """The latest observation."""
    work: Future[None] | None = None
    task: asyncio.Task[Any] | None = None
    resume_point: ResumePoint | None = None
    """State of an episode that another process began; None for a new episode."""
    introduced: bool = False
    """Whether the agent has been informed of the episode."""
    address: str = ""
    """Address to be reopened if the browser is lost; empty without a journal."""
    asked: list[dict[str, str]] = field(default_factory=list)
    """Questions to a person in the current step, with the answers, for `Step.asked`."""
    question: asyncio.Future[str] | None = None
    """Future of the person's answer while the episode waits for a person; else None."""
    waits_since: float | None = None
    """Time (monotonic clock, seconds) since which the episode waits for a person or a function in their place; else
    None."""
    waited: float = 0.0
    """Total seconds spent waiting for people."""
    spent: float = 0.0
    """Elapsed seconds that count towards `PlayOptions.episode_timeout`."""
    counted: float = 0.0
    """Value of `lasted` at the last call of `count`."""

    @property
    def lasted(self) -> float:
        """Seconds since the episode's start, excluding waits for people."""
        now = time.monotonic()
        return now - self.begun - self.waited - (now - self.waits_since if self.waits_since is not None else 0)

    def count(self, share: float) -> None:
        """Count the time since the last call towards the timeout, scaled by a thread's share of a core."""
        lasted = self.lasted
        self.spent, self.counted = self.spent + (lasted - self.counted) * share, lasted

    def go_on(self) -> None:
        """Stop waiting for a person."""
        if self.waits_since is not None:
            self.waited, self.waits_since = self.waited + time.monotonic() - self.waits_since, None

    @property
    def trace(self) -> dict[str, str]:
        """The trace id of the log, as an entry of the episode's record; empty without a log."""
        return {} if self.log is None else {"traceId": self.log.trace_id}

    def close_log(self) -> None:
        """Close the log with the episode's result."""
        if self.log is not None:
            self.log.close(self.result.ending, self.result.detail)

    def write_step(self, step: Step) -> None:
        """Record a step in the episode, if the episode is recorded."""
        if self.writer is None:
            return
        decision = step.decision
        self.writer.step(
            step.observation,
            decision.action,
            reward=step.reward,
            info=step.info,
            after=step.after,
            privileged=step.privileged,
            **_records(decision),
            narration=decision.graph.get("said", ""),
            time=step.time,
            questions=step.asked or None,
        )
        self.writer.note_before("at", address=self.address)

    def late(self, options: PlayOptions) -> EpisodeOver | None:
        """Return the timeout error of an episode, blaming the agent or the environment; None within the limit."""
        limit, slow = options.episode_timeout, options.slow_agent
        if self.spent <= limit:
            return None
        if self.result.env_seconds > self.lasted / 2:
            detail = f"the environment took {self.result.env_seconds:.0f} of the {limit:g} s allowed for an episode"
            return EpisodeOver(Outcome.ENV_ERROR, detail)
        return EpisodeOver(slow, f"not done in {limit:g} s", trainable=slow.trainable)


@dataclass(eq=False)
class DecisionRequest:
    """A request of an episode for the agent's decision."""

    live: RunningEpisode
    observation: Observation
    answer: asyncio.Future[tuple[Decision, Privileged | None]]
    privileged: Privileged | None = None
    """The oracle's next action with its reason; None without an oracle."""
    since: float = field(default_factory=time.monotonic)
    began: float = field(default_factory=time.time)

    def write_intent(self, decision: Decision) -> None:
        """Record the decision in the episode's journal, if there is one, before the action is executed."""
        writer = self.live.writer
        if writer is not None and writer.journal is not None:
            action = intended(decision.action)
            writer.note_before(
                "intent", action=action, observation=self.observation, **_records(decision), began=self.began
            )


def _records(decision: Decision) -> dict[str, Any]:
    """Return the entries of a decision in the episode and its journal."""
    processed = decision.place or decision.roles or decision.graph
    return {
        "policy": policy_record(decision) if decision.messages else None,
        "decision": decision_record(decision) if processed else None,
    }


def give_answer(request: DecisionRequest, answer: tuple[Decision, Privileged | None] | EpisodeOver) -> None:
    """Pass the decision, or the end, to a waiting episode; called from the caller's thread."""

    def give() -> None:
        if request.answer.done():
            return
        if isinstance(answer, EpisodeOver):
            request.answer.set_exception(answer)
        else:
            request.answer.set_result(answer)

    runtime().loop.call_soon_threadsafe(give)


UNKNOWN: tuple[float, Info, Observation] = (0.0, {}, cast(Observation, {}))
"""Placeholder for the reward, info and observation of a step before its execution."""


def settle(answer: asyncio.Future[str], text: str) -> None:
    """Pass a person's answer to an episode; called on the episode's event loop."""
    if not answer.done():
        answer.set_result(text)


async def cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel episodes' coroutines and wait up to `CLOSING` seconds for their end."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=CLOSING)
