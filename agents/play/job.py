"""What is asked of a player, and what comes back: a job, an attempt at it, its steps, its result."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from selfsurf.agents.agent import Decision
from selfsurf.agents.graph.reasons import terminal_fields
from selfsurf.browser_env import Info, Observation, Outcome

_CLAIM = '{"action": "finish"'
"""How the environment writes the action down."""


@dataclass(frozen=True)
class Job:
    """An episode to play."""

    env_id: str
    seed: int


@dataclass(frozen=True)
class Ask:
    """One attempt at an episode."""

    number: int
    """The job's place among all that were asked for."""
    job: Job
    attempt: int = 0
    """0 is the first."""
    seed: int | None = None
    """What its actions are drawn from; None leaves it to the agent."""
    version: int = 0
    """Of the weights that act."""
    alone: bool = False
    """Play nothing beside it in the same worker: it was there when a worker was lost."""

    def step_seed(self, step: int) -> int:
        """The seed of one step's action.

        It depends on nothing but the run's seed, the job and the step, so that what is sampled does not depend on
        which episodes are played beside it, in which order or where.
        """
        return derived(self.seed, step)

    def led(self, lead: float) -> int:
        """How many of its first steps the oracle takes, if it takes each further one with this probability."""
        if lead <= 0 or self.seed is None:
            return 0
        return int(np.random.default_rng(derived(self.seed, "lead")).geometric(1 - lead)) - 1


def derived(*parts: object) -> int:
    """Return a seed made of parts; others give another. It has 31 bits, since some servers take no more."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:4], "big") % 2**31


@dataclass
class Step:
    """One step as it happened."""

    observation: Observation
    """What the agent saw."""
    decision: Decision
    privileged: dict[str, Any] | None
    """What the task's oracle would have done."""
    reward: float
    info: Info
    after: Observation
    """What was there after it."""
    time: float = 0.0
    """Unix time at which the agent was asked."""
    asked: tuple[dict[str, str], ...] = ()
    """What a person was asked in it, and said: `{"question", "answer"}`."""

    def __repr__(self) -> str:
        action = self.decision.action if isinstance(self.decision.action, str) else self.decision.action.to_json()
        failed = f", error={self.error!r}" if self.error else ""
        return f"Step({action}, url={self.after['url']!r}, reward={self.reward:g}{failed})"

    @property
    def error(self) -> str:
        """Why the action did not work; empty when it did."""
        return self.after["last_error"]


def claims(last_action: str) -> bool:
    """Return whether an action, as the environment writes it down, says that the agent is done."""
    return last_action.startswith(_CLAIM)


def usages_of(steps: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what each reply in recorded steps has used, where that is known."""
    replies = (reply for step in steps for reply in step.get("completions", ()))
    return [reply["usage"] for reply in replies if reply["usage"] is not None]


@dataclass
class Result:
    """An episode that has ended."""

    job: Job
    outcome: str
    trainable: bool
    reward: float = 0.0
    """The sum over its steps: how much of the task was done at its end."""
    detail: str = ""
    """Why it ended so, where the outcome alone doesn't say."""
    score: dict[str, Any] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    """All steps, where the player keeps them (`Manner.keep_steps`)."""
    version: int = 0
    """Of the weights that acted."""
    attempt: int = 0
    led: int = 0
    """How many of its first steps the oracle took."""
    length: int = 0
    """Number of steps."""
    last_error: str = ""
    """Of the last action that did not work."""
    answer: str = ""
    """What the agent said last."""
    traceback: str = ""
    """Of an error that nobody foresaw."""
    claimed: bool = False
    """The agent ended it by saying that it is done."""
    rejected: int = 0
    """How many claims its verifier rejected."""
    wrongly_rejected: int | None = None
    """Of these, how many were true; None where the task says so only at the end (`browser_env.task.Task.ends`)."""
    terminal_reason: str = ""
    """Why it ended, in its agent's own words (`agents.graph.reasons`), where it has any."""
    judged: bool = True
    """The task has judged it, or would have: False where it has no criterion."""
    agent_raised: bool = False
    """The agent's own code raised."""
    crashed: bool = False
    """The environment failed while the agent's action was being carried out, and not in the task's own code."""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost: float | None = None
    """US dollars, where prices are known."""
    seconds: float = 0.0
    """Wall-clock, without waiting for people; other episodes went on at the same time."""
    agent_seconds: float = 0.0
    """In the agent; a call for several episodes is shared among them."""
    env_seconds: float = 0.0
    """In the reset and the steps."""

    @property
    def solved(self) -> bool:
        """Full reward."""
        return self.outcome == Outcome.SOLVED

    @property
    def ending(self) -> str:
        """The outcome, or `done` where the agent says that it is done and no task judges that."""
        return "done" if self.outcome == Outcome.STOPPED and self.claimed else self.outcome

    @property
    def masked(self) -> bool:
        """The infrastructure failed it, whatever was tried: it says nothing about the agent."""
        return self.outcome == Outcome.ENV_ERROR

    @property
    def terminal(self) -> dict[str, str]:
        """Its `terminal_reason` and `terminal_type`, as records hold them."""
        return terminal_fields(self.terminal_reason)

    def add(self, step: Step, *, keep: bool) -> None:
        """Count a step, and keep it if wanted."""
        self.length += 1
        self.reward += step.reward
        self.score, self.judged = step.info["score"], step.info.get("judged", True)
        self.last_error = step.error or self.last_error
        accepted = step.info["outcome"] not in (Outcome.RUNNING, Outcome.TIMEOUT)
        self.claimed = accepted and claims(step.after["last_action"])
        if step.decision.rejected:
            self.rejected += 1
        if "reached" in self.score:
            wrongly = bool(step.decision.rejected and self.score["reached"])
            self.wrongly_rejected = (self.wrongly_rejected or 0) + wrongly
        usage = step.decision.completion.usage
        if usage is not None:
            self._spend(usage.prompt_tokens, usage.completion_tokens, usage.cost)
        if keep:
            self.steps.append(step)

    def take_up(self, steps: Sequence[Mapping[str, Any]], reward: float) -> None:
        """Count the recorded steps of an episode that another process has begun."""
        self.length, self.reward = len(steps), reward
        for usage in usages_of(steps):
            self._spend(usage["prompt_tokens"], usage["completion_tokens"], usage["cost"])

    def _spend(self, prompt_tokens: int, completion_tokens: int, cost: float | None) -> None:
        self.prompt_tokens = (self.prompt_tokens or 0) + prompt_tokens
        self.completion_tokens = (self.completion_tokens or 0) + completion_tokens
        if cost is not None:
            self.cost = (self.cost or 0.0) + cost

    def totals(self) -> dict[str, Any]:
        """Return the sums that an episode's log keeps."""
        names = ("prompt_tokens", "completion_tokens", "cost")
        seconds = {name: round(getattr(self, name), 4) for name in ("seconds", "agent_seconds", "env_seconds")}
        return {**{name: getattr(self, name) for name in names}, **seconds, "led": self.led, "attempt": self.attempt}

    def notes(self) -> dict[str, str]:
        """Return what an episode's record says of its end besides the outcome."""
        notes = {**self.terminal, "traceback": self.traceback}
        return {name: text for name, text in notes.items() if text}

    def end(self, outcome: str, *, trainable: bool, detail: str = "") -> Result:
        """Set how it ended."""
        self.outcome, self.trainable, self.detail = str(outcome), trainable, detail
        return self


def failed(job: Job, detail: str, version: int = 0) -> Result:
    """The result of an episode that the infrastructure failed."""
    return Result(job, str(Outcome.ENV_ERROR), trainable=False, detail=detail, version=version)
