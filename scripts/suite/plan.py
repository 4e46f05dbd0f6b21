"""What a run is made of, as plain data that travels to worker processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Logs: TypeAlias = Literal["all", "unsolved", "none"]
"""Of which episodes the whole log is kept."""

Key: TypeAlias = tuple[str, int]
"""Task id and seed: an episode of a run."""


@dataclass(frozen=True)
class Plan:
    """What every worker of a run knows."""

    folder: str
    """Where the run is written; absolute."""
    tasks: tuple[dict[str, Any], ...]
    """As `Suite.about`."""
    agent: str
    """Name of the agent: a backend, `random`, `oracle`, `module:Class` or `file.py:Class`."""
    agent_options: dict[str, Any] = field(default_factory=dict)
    max_steps: int | None = None
    """None: every task's own limit."""
    episode_timeout: float = 600.0
    """Seconds that an episode may take."""
    logs: Logs = "all"
    screenshots: bool = False
    """Have a screenshot in every observation. Without it, only an episode that ends unsolved has one, of its end."""
    headless: bool = True


@dataclass(frozen=True)
class Request:
    """An episode to be run, once."""

    task: int
    """Number of the task in the plan."""
    seed: int
    attempt: int = 1
    """1 is the first."""
    alone: bool = False
    """Nothing else runs beside it in its worker: it was there when a worker hung."""


@dataclass
class Record:
    """How an episode went: a line of `results.jsonl`."""

    task: str
    seed: int
    outcome: str
    outcome_detail: str = ""
    reward: float = 0.0
    raw_reward: float | None = None
    """The task's own, unscaled."""
    time_reward: float | None = None
    """The task's own, scaled by the time it took."""
    steps: int = 0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost: float | None = None
    seconds: float = 0.0
    """Wall-clock from the reset's begin; other episodes ran at the same time."""
    agent_seconds: float = 0.0
    """In the agent; a call for several episodes is shared among them."""
    env_seconds: float = 0.0
    attempts: int = 1
    last_error: str = ""
    reason: str = ""
    answer: str = ""
    episode: str | None = None
    """The episode's folder, relative to the run's."""
    screenshot: str | None = None
    agent_raised: bool = False
    """The agent's own code raised an exception."""
