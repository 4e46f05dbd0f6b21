"""What a run is made of, as plain data that travels to worker processes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Literal, TypeAlias

from selfsurf.agents.play import Result
from selfsurf.browser_env import Outcome
from selfsurf.browser_env.text import well_formed

Logs: TypeAlias = Literal["all", "unsolved", "none"]
"""Of which episodes the whole log is kept."""

LONGEST = 2000
"""Characters of a text in a record; the episode's log has the whole."""

Key: TypeAlias = tuple[str, int]
"""Task id and seed: an episode of a run."""


@dataclass(frozen=True)
class Plan:
    """What is run, and how; every worker knows it."""

    folder: str
    """Where the run is written; absolute."""
    tasks: tuple[dict[str, Any], ...]
    """As `Suite.about`."""
    agent: str
    """Name of the agent: a backend, `random`, `oracle`, `module:Class` or `file.py:Class`."""
    seeds: tuple[int, ...]
    """Of every task."""
    agent_options: dict[str, Any] = field(default_factory=dict)
    max_steps: int | None = None
    """None: every task's own limit."""
    episode_timeout: float = 600.0
    """Seconds that an episode may take."""
    logs: Logs = "all"
    screenshots: bool = False
    """Have a screenshot in every observation. Without it, only an episode that ends unsolved has one, of its end."""
    headless: bool = True
    processes: int = 1
    """How many workers."""
    slots: int = 1
    """Episodes at the same time, over all workers; each plays one at least."""
    retries: int = 2
    """Times that an episode is run again when the infrastructure failed it."""
    deadline: float | None = None
    """Seconds after which nothing new is begun and what is under way is dropped; None for none."""
    max_tokens: int | None = None
    """Tokens, read and written, after which nothing new is begun; None for no limit."""
    max_cost: float | None = None
    """US dollars, likewise."""
    environment: dict[str, Any] = field(default_factory=dict)
    """What was asked for of the environment, as episodes keep it (`EnvironmentSettings.given`)."""
    env_options: dict[str, Any] = field(default_factory=dict, repr=False)
    """The same as arguments of `browser_env.env.make_core`, secrets included: written nowhere."""

    def slots_of(self, number: int) -> int:
        """Return how many episodes a worker plays at the same time."""
        each, more = divmod(self.slots, self.processes)
        return max(1, each + (number < more))


def record_of(result: Result) -> dict[str, Any]:
    """Return how an episode went as a line of `results.jsonl`.

    `reward` is the task's score at the end, `raw_reward` and `time_reward` are its own, unscaled and scaled by its
    time; `claimed`: the agent said that it is done; `rejected`: claims that its verifier rejected, `wrongly_rejected`:
    those that were true, None where nobody knows; `attempts` counts from 1; `episode` and `screenshot` are paths
    relative to the run's folder, None where nothing was kept; `judged` is false for one that was played to its end and
    that nothing judges.
    """
    score = result.score
    texts = {
        "outcome_detail": result.detail, "last_error": result.last_error, "reason": str(score.get("reason") or ""),
        "answer": result.answer,
    } | (result.terminal if result.terminal_reason else {})  # fmt: skip
    return {
        "task": result.job.env_id, "seed": result.job.seed, "outcome": result.outcome, "reward": result.reward,
        "raw_reward": _number(score.get("raw_reward")), "time_reward": _number(score.get("reward")),
        "steps": result.length, "claimed": result.claimed, "rejected": result.rejected,
        "wrongly_rejected": result.wrongly_rejected,
        "prompt_tokens": result.prompt_tokens, "completion_tokens": result.completion_tokens, "cost": result.cost,
        "seconds": round(result.seconds, 4), "agent_seconds": round(result.agent_seconds, 4),
        "env_seconds": round(result.env_seconds, 4), "attempts": result.attempt + 1,
        **{name: _clipped(text) for name, text in texts.items()},
        "episode": None, "screenshot": None, "agent_raised": result.agent_raised,
        "judged": result.judged or result.outcome in (Outcome.SOLVED, Outcome.FAILED, Outcome.ENV_ERROR),
        "traceback": result.traceback[-LONGEST:],
    }  # fmt: skip


def _number(given: Any) -> float | None:
    """Return what a task gave as a number, if it is one: a task of a user's own may mean something else by the name."""
    return float(given) if isinstance(given, Real) and math.isfinite(given) else None


def _clipped(text: str) -> str:
    text = well_formed(text)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
