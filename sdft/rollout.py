"""Runs an agent through episodes, several at a time, and keeps what happened.

One policy call serves all live episodes; a finished one makes room for the next. Knows nothing about learning.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agents.episodes import Running, advance
from agents.llm_agent import Decision, LLMAgent
from agents.policy import PolicyError
from agents.record import versions
from browser_env import AsyncBrowserEnv, EnvError, Observation, Outcome
from browser_env.episode import EpisodeWriter
from browser_env.runtime import runtime
from envs_registry import task_of

RERUNS = 1
"""Times that an episode is run again when the infrastructure failed it."""


@dataclass(frozen=True)
class Job:
    """An episode to be run."""

    env_id: str
    seed: int


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

    @property
    def solved(self) -> bool:
        """Full reward."""
        return self.outcome == Outcome.SOLVED


@dataclass
class _Live:
    running: Running
    job: Job
    result: Result
    attempt: int

    def end(self, outcome: str, *, trainable: bool, detail: str) -> None:
        """Write down how the episode ended."""
        self.result.outcome, self.result.trainable, self.result.detail = outcome, trainable, detail
        if self.running.writer is not None:
            self.running.writer.finish(
                outcome, trainable=trainable, after=self.running.observation, score=self.result.score
            )


class Rollouts:
    """Environments kept warm between calls. Use it as a context manager.

    Args:
        num_envs: most episodes at the same time.
        env_options: passed to every environment (`browser_env.env.make_core`).
    """

    def __init__(self, num_envs: int = 8, **env_options: Any) -> None:
        self.num_envs = num_envs
        self._options = {"screenshot": False, **env_options}
        self._idle: dict[str, list[AsyncBrowserEnv]] = {}

    def __enter__(self) -> Rollouts:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all environments."""
        envs = [env for idle in self._idle.values() for env in idle]
        self._idle.clear()
        if envs:
            runtime().run(_gather(env.close() for env in envs))

    def run(
        self,
        agent: LLMAgent,
        jobs: Sequence[Job],
        *,
        demonstrate: bool = False,
        folder: Path | None = None,
        meta: dict[str, Any] | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> list[Result]:
        """Run episodes.

        Args:
            agent: acts in all of them.
            jobs: which episodes.
            demonstrate: show the agent the oracle's next action at every step.
            folder: write the episodes here, one folder each, or nowhere.
            meta: goes into every `episode.json`.
            progress: called with the number of episodes that have ended.

        Returns:
            The results in the order of `jobs`. An episode that the infrastructure failed is run again once; if it
            fails again its outcome is `env_error`.
        """
        queue = [(index, job, 0) for index, job in enumerate(jobs)][::-1]
        results: dict[int, Result] = {}
        index_of: dict[int, int] = {}
        live: dict[int, _Live] = {}
        while queue or live:
            starting = []
            for slot in range(self.num_envs):
                if slot not in live and queue:
                    index, job, attempt = queue.pop()
                    index_of[slot] = index
                    starting.append((slot, job, attempt))
            for one in runtime().run(_gather(self._start(agent, *each, folder, meta) for each in starting)):
                live[one.running.slot] = one
            acting = [one for one in live.values() if one.result.outcome == Outcome.RUNNING]
            if acting:
                self._advance(agent, acting, demonstrate)
            for slot, one in list(live.items()):
                if one.result.outcome == Outcome.RUNNING:
                    continue
                del live[slot]
                self._idle.setdefault(one.job.env_id, []).append(one.running.env)
                if one.result.outcome == Outcome.ENV_ERROR and one.attempt < RERUNS:
                    queue.append((index_of[slot], one.job, one.attempt + 1))
                    continue
                results[index_of[slot]] = one.result
                if progress:
                    progress(len(results))
        return [results[index] for index in range(len(jobs))]

    async def _start(
        self, agent: LLMAgent, slot: int, job: Job, attempt: int, folder: Path | None, meta: dict[str, Any] | None
    ) -> _Live:
        idle = self._idle.get(job.env_id)
        env = idle.pop() if idle else AsyncBrowserEnv(task=task_of(job.env_id), **self._options)
        result = Result(job, str(Outcome.RUNNING), trainable=True)
        try:
            observation, _ = await env.reset(seed=job.seed)
        except EnvError as error:
            result.outcome, result.trainable, result.detail = str(Outcome.ENV_ERROR), False, str(error)
            return _Live(Running(slot, env, {}, None), job, result, attempt)  # type: ignore[typeddict-item]
        agent.reset(observation["goal"], slot=slot)
        writer = None
        if folder is not None:
            name = f"{job.env_id.replace('/', '_')}_{job.seed}" + (f"_retry{attempt}" if attempt else "")
            about = {"episode_id": name, "env_id": job.env_id, "seed": job.seed, "goal": observation["goal"]}
            writer = EpisodeWriter(folder / name, {**about, "versions": versions(), **(meta or {})})
        return _Live(Running(slot, env, observation, writer), job, result, attempt)

    def _advance(self, agent: LLMAgent, acting: list[_Live], demonstrate: bool) -> None:
        try:
            steps = advance(agent, [one.running for one in acting], demonstrate=demonstrate)
        except PolicyError as error:  # nobody has acted: what failed is the model's server, not these episodes' agent
            for one in acting:
                one.end(str(Outcome.ENV_ERROR), trainable=False, detail=str(error))
            return
        for one, decision, step in zip(acting, agent.decisions, steps, strict=True):
            one.result.steps.append(
                Step(step.observation, decision, step.privileged, step.reward, step.after["last_error"], step.after)
            )
            one.result.reward += step.reward
            one.result.score = step.info["score"]
            if step.ended:
                one.end(step.info["outcome"], trainable=step.info["trainable"], detail=step.info["outcome_detail"])


async def _gather(work: Iterable[Any]) -> list[Any]:
    return list(await asyncio.gather(*work))
