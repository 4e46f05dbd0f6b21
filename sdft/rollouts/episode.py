"""What an episode is asked for with, and what comes back."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from selfsurf.agents.llm_agent import Decision
from selfsurf.browser_env import Observation, Outcome


@dataclass(frozen=True)
class Job:
    """An episode to be run."""

    env_id: str
    seed: int


@dataclass(frozen=True)
class Ask:
    """One attempt at an episode."""

    number: int
    """Its place in the batch."""
    job: Job
    attempt: int = 0
    seed: int | None = None
    """What its actions are drawn from; None leaves it to the agent."""
    version: int = 0
    """Of the weights that act."""

    def step_seed(self, step: int) -> int:
        """The seed of one step's action.

        It depends on nothing but the run's seed, the job and the step, so that what is sampled does not depend on
        which episodes run beside it, in which order or where.
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
    decision: Decision
    privileged: dict[str, Any] | None
    reward: float
    error: str
    after: Observation | None = None
    """What was there after it."""


@dataclass
class Result:
    """An episode that has ended."""

    job: Job
    outcome: str
    trainable: bool
    reward: float = 0.0
    detail: str = ""
    score: dict[str, Any] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    version: int = 0
    """Of the weights that acted."""
    led: int = 0
    """How many of its first steps the oracle took."""

    @property
    def solved(self) -> bool:
        """Full reward."""
        return self.outcome == Outcome.SOLVED

    @property
    def masked(self) -> bool:
        """The infrastructure failed it, whatever was tried: it says nothing about the agent."""
        return self.outcome == Outcome.ENV_ERROR


def failed(job: Job, detail: str, version: int = 0) -> Result:
    """The result of an episode that the infrastructure failed."""
    return Result(job, str(Outcome.ENV_ERROR), trainable=False, detail=detail, version=version)
