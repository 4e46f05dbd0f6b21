"""Input and output of a player: a job, an attempt at it, its steps, its result."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from selfsurf.agents.agent import Decision
from selfsurf.agents.graph.reasons import terminal_fields
from selfsurf.browser_env import ActionError, Finish, Info, Observation, Outcome, parse_action


@dataclass(frozen=True)
class Job:
    """An episode to play: an environment id and a seed."""

    env_id: str
    seed: int


@dataclass(frozen=True)
class EpisodeRequest:
    """One attempt at an episode."""

    number: int
    """Index of the job in its batch."""
    job: Job
    attempt: int = 0
    """Number of the attempt; 0 is the first."""
    seed: int | None = None
    """Seed of the episode's actions; None leaves sampling to the agent."""
    version: int = 0
    """Version of the acting weights."""
    alone: bool = False
    """Whether the worker plays nothing else at the same time, because an earlier attempt was running when a worker was
    lost."""

    def step_seed(self, step: int) -> int:
        """Return the seed of one step's action.

        The seed depends only on the episode's seed and the step, so that samples don't depend on which episodes are
        played concurrently, in which order or where.
        """
        return derived(self.seed, step)

    def led(self, lead: float) -> int:
        """Return the number of the oracle's first steps, a random number with continuation probability `lead`."""
        if lead <= 0 or self.seed is None:
            return 0
        return int(np.random.default_rng(derived(self.seed, "lead")).geometric(1 - lead)) - 1


def derived(*parts: object) -> int:
    """Return a 31-bit seed derived from the parts by hashing. Some servers accept no larger seeds."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:4], "big") % 2**31


@dataclass
class Step:
    """One step of an episode, as played."""

    observation: Observation
    """The agent's observation."""
    decision: Decision
    privileged: dict[str, Any] | None
    """The oracle's next action with its reason; None without an oracle."""
    reward: float
    info: Info
    after: Observation
    """The observation after the step."""
    time: float = 0.0
    """Unix time at which the agent was asked."""
    asked: tuple[dict[str, str], ...] = ()
    """Questions to a person in the step, with the answers: `{"question", "answer"}`."""

    def __repr__(self) -> str:
        action = self.decision.action if isinstance(self.decision.action, str) else self.decision.action.to_json()
        failed = f", error={self.error!r}" if self.error else ""
        return f"Step({action}, url={self.after['url']!r}, reward={self.reward:g}{failed})"

    @property
    def error(self) -> str:
        """The action's error; empty if it succeeded."""
        return self.after["last_error"]


def claims(last_action: str) -> bool:
    """Return whether an action, in the form of `last_action`, claims that the task is done."""
    with suppress(ActionError):
        return isinstance(parse_action(last_action), Finish)
    return False


def usages_of(steps: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the usage of each reply in recorded steps, if known."""
    replies = (reply for step in steps for reply in step.get("completions", ()))
    return [reply["usage"] for reply in replies if reply["usage"] is not None]


@dataclass
class Result:
    """The result of an ended episode."""

    job: Job
    outcome: str
    trainable: bool
    reward: float = 0.0
    """Sum of the steps' rewards: the share of the task that is done at the end."""
    detail: str = ""
    """Explanation of the outcome; empty if the outcome is sufficient."""
    score: dict[str, Any] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    """All steps, if the player keeps them (`PlayOptions.keep_steps`), else empty."""
    version: int = 0
    """Version of the acting weights."""
    attempt: int = 0
    led: int = 0
    """Number of first steps taken by the oracle."""
    length: int = 0
    """Number of steps."""
    last_error: str = ""
    """Error message of the last failed action; empty for none."""
    answer: str = ""
    """The agent's last message if the agent claimed to be done, else empty."""
    traceback: str = ""
    """Traceback of an unexpected error; empty for none."""
    claimed: bool = False
    """Whether the agent ended the episode by claiming to be done."""
    rejected: int = 0
    """Number of claims rejected by the agent's verifier."""
    wrongly_rejected: int | None = None
    """Number of true claims that the verifier rejected; None if the task judges only at the end
    (`browser_env.task.Task.ends`)."""
    terminal_reason: str = ""
    """The agent's own reason for the end (`agents.graph.reasons`); empty for none."""
    judged: bool = True
    """Whether the task judges the episode; False for a task without a criterion."""
    agent_raised: bool = False
    """Whether the agent's own code raised."""
    crashed: bool = False
    """Whether the environment, other than the task's own code, failed during an action of the agent."""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost: float | None = None
    """Cost in US dollars; None if prices are unknown."""
    seconds: float = 0.0
    """Wall-clock seconds, excluding waits for people; concurrent episodes overlap."""
    agent_seconds: float = 0.0
    """Seconds in the agent; the duration of a batched call is divided among its episodes."""
    env_seconds: float = 0.0
    """Seconds in the environment's reset and steps."""

    @property
    def solved(self) -> bool:
        """Whether the task is solved, with full reward."""
        return self.outcome == Outcome.SOLVED

    @property
    def ending(self) -> str:
        """The outcome; `done` for a claim that no task judges."""
        return "done" if self.outcome == Outcome.STOPPED and self.claimed else self.outcome

    @property
    def masked(self) -> bool:
        """Whether the infrastructure failed, so that the result is no evidence about the agent."""
        return self.outcome == Outcome.ENV_ERROR

    @property
    def terminal(self) -> dict[str, str]:
        """The `terminal_reason` and `terminal_type` of the episode's record."""
        return terminal_fields(self.terminal_reason)

    def add(self, step: Step, *, keep: bool) -> None:
        """Add a step to the totals, and keep the step itself if `keep`."""
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
        """Add the recorded steps of an episode that another process began to the totals."""
        self.length, self.reward = len(steps), reward
        for usage in usages_of(steps):
            self._spend(usage["prompt_tokens"], usage["completion_tokens"], usage["cost"])

    def _spend(self, prompt_tokens: int, completion_tokens: int, cost: float | None) -> None:
        self.prompt_tokens = (self.prompt_tokens or 0) + prompt_tokens
        self.completion_tokens = (self.completion_tokens or 0) + completion_tokens
        if cost is not None:
            self.cost = (self.cost or 0.0) + cost

    def totals(self) -> dict[str, Any]:
        """Return the totals for the episode's log."""
        names = ("prompt_tokens", "completion_tokens", "cost")
        seconds = {name: round(getattr(self, name), 4) for name in ("seconds", "agent_seconds", "env_seconds")}
        return {**{name: getattr(self, name) for name in names}, **seconds, "led": self.led, "attempt": self.attempt}

    def notes(self) -> dict[str, str]:
        """Return the notes on the end for the episode's record, besides the outcome."""
        notes = {**self.terminal, "traceback": self.traceback}
        return {name: text for name, text in notes.items() if text}

    def end(self, outcome: str, *, trainable: bool, detail: str = "") -> Result:
        """Set the outcome and return the result itself."""
        self.outcome, self.trainable, self.detail = str(outcome), trainable, detail
        return self


def failed(job: Job, detail: str, version: int = 0) -> Result:
    """Return the result of an episode in which the infrastructure failed."""
    return Result(job, str(Outcome.ENV_ERROR), trainable=False, detail=detail, version=version)
