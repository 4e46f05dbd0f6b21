"""Specification of a run and records of its results, as plain data that is sent to worker processes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Literal, TypeAlias

from selfsurf.agents.play import Result
from selfsurf.browser_env import Outcome
from selfsurf.browser_env.text import well_formed

KeptEpisodes: TypeAlias = Literal["all", "unsolved", "none"]
"""Choice of the episodes whose full logs are kept."""

LONGEST = 2000
"""Maximum number of characters of a text in a record; the episode's log has the whole text."""

Key: TypeAlias = tuple[str, int]
"""Task id and seed, which identify an episode of a run."""


@dataclass(frozen=True)
class Plan:
    """The specification of a run, which every worker receives."""

    folder: str
    """Absolute path of the run's folder."""
    tasks: tuple[dict[str, Any], ...]
    """Tasks as described by `Suite.about`."""
    agent: str
    """Name of the agent: a backend, `random`, `oracle`, `module:Class` or `file.py:Class`."""
    seeds: tuple[int, ...]
    """Seeds on which every task is played."""
    agent_options: dict[str, Any] = field(default_factory=dict)
    max_steps: int | None = None
    """Step limit; None for every task's own."""
    episode_timeout: float = 600.0
    """Seconds until an episode times out."""
    keep_episodes: KeptEpisodes = "all"
    screenshots: bool = False
    """Whether every observation has a screenshot; otherwise only the ends of unsolved episodes have one."""
    headless: bool = True
    processes: int = 1
    """Number of workers."""
    slots: int = 1
    """Number of concurrent episodes over all workers; each worker plays at least one."""
    retries: int = 2
    """Number of times that an episode is repeated after an infrastructure failure."""
    deadline: float | None = None
    """Seconds after which no new episode begins and running ones are dropped; None for no limit."""
    max_tokens: int | None = None
    """Tokens, prompt and completion, after which no new episode begins; None for no limit."""
    max_cost: float | None = None
    """US dollars after which no new episode begins; None for no limit."""
    environment: dict[str, Any] = field(default_factory=dict)
    """Settings of the environment as recorded in episodes (`EnvironmentSettings.given`)."""
    env_options: dict[str, Any] = field(default_factory=dict, repr=False)
    """Settings of the environment as arguments of `environment.env.make_core`, with secrets; never written to disk."""

    def slots_of(self, number: int) -> int:
        """Return the number of concurrent episodes of a worker."""
        each, more = divmod(self.slots, self.processes)
        return max(1, each + (number < more))


def record_of(result: Result) -> dict[str, Any]:
    """Return the result of an episode as a line of `results.jsonl`.

    `reward` is the task's final score; `raw_reward` and `time_reward` are the task's own, unscaled and scaled by its
    time. `claimed`: whether the agent claimed to be done. `rejected`: number of claims that its verifier rejected;
    `wrongly_rejected`: the number of true ones among them, None if unknown. `attempts` counts from 1. `episode` and
    `screenshot` are paths relative to the run's folder, None if none was kept. `judged` is false if the episode was
    played to its end and nothing judges it.
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
    """Return a number from a task's score; None if a user's own task stores something else under the name."""
    return float(given) if isinstance(given, Real) and math.isfinite(given) else None


def _clipped(text: str) -> str:
    text = well_formed(text)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
