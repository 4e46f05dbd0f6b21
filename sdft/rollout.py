"""Runs an agent through episodes, several at a time, and keeps what happened.

One policy call serves all live episodes; a finished one makes room for the next. Knows nothing about learning.
"""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from agents.llm_agent import Decision, LLMAgent
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
    slot: int
    job: Job
    env: AsyncBrowserEnv
    observation: Observation
    writer: EpisodeWriter | None
    result: Result
    attempt: int


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
                live[one.slot] = one
            acting = [one for one in live.values() if one.result.outcome == Outcome.RUNNING]
            if acting:
                self._advance(agent, acting, demonstrate)
            for slot, one in list(live.items()):
                if one.result.outcome == Outcome.RUNNING:
                    continue
                del live[slot]
                self._idle.setdefault(one.job.env_id, []).append(one.env)
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
            return _Live(slot, job, env, {}, None, result, attempt)  # type: ignore[typeddict-item]
        agent.reset(observation["goal"], slot=slot)
        writer = None
        if folder is not None:
            name = f"{job.env_id.replace('/', '_')}_{job.seed}" + (f"_retry{attempt}" if attempt else "")
            about = {"episode_id": name, "env_id": job.env_id, "seed": job.seed, "goal": observation["goal"]}
            writer = EpisodeWriter(folder / name, {**about, "versions": versions(), **(meta or {})})
        return _Live(slot, job, env, observation, writer, result, attempt)

    def _advance(self, agent: LLMAgent, acting: list[_Live], demonstrate: bool) -> None:
        told = [one.env.privileged() for one in acting]
        actions = agent.act_batch(
            [one.observation for one in acting],
            slots=[one.slot for one in acting],
            privileged=told if demonstrate else None,
        )
        decisions = agent.decisions
        steps = runtime().run(_gather(one.env.step(action) for one, action in zip(acting, actions, strict=True)))
        for one, decision, privileged, (after, reward, ended, cut, info) in zip(
            acting, decisions, told, steps, strict=True
        ):
            one.result.steps.append(Step(one.observation, decision, privileged, reward, after["last_error"]))
            one.result.reward += reward
            one.result.score = info["score"]
            if one.writer is not None:
                one.writer.step(
                    one.observation,
                    decision.action,
                    reward=reward,
                    info=info,
                    after=after,
                    privileged=privileged,
                    policy=policy_record(decision),
                )
            one.observation = after
            if ended or cut:
                one.result.outcome, one.result.trainable = info["outcome"], info["trainable"]
                one.result.detail = info["outcome_detail"]
                if one.writer is not None:
                    one.writer.finish(info["outcome"], trainable=info["trainable"], after=after, score=info["score"])


def policy_record(decision: Decision) -> dict[str, Any]:
    """Return what an episode keeps of a decision: exactly what was shown and sampled."""
    completion = decision.completion
    return {
        "prompt": [{"role": message.role, "text": message.text} for message in decision.messages],
        "text": completion.text,
        "prompt_token_ids": completion.prompt_token_ids,
        "prefill_token_ids": completion.prefill_token_ids,
        "token_ids": completion.token_ids,
        "logprobs": [round(value, 6) for value in completion.logprobs],
        "grammar": completion.grammar,
        "finish_reason": completion.finish_reason,
        "error": decision.error,
        "guard": decision.guard_note,
        "guards": decision.guard_counts,
        "demonstrated": decision.privileged is not None,
    }


def versions() -> dict[str, str]:
    """Return the versions of what a result depends on."""
    found = {"python": platform.python_version()}
    for name in (
        "selfsurf",
        "gymnasium",
        "playwright",
        "miniwob",
        "torch",
        "transformers",
        "trl",
        "peft",
        "llguidance",
    ):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    return found


async def _gather(work: Iterable[Any]) -> list[Any]:
    return list(await asyncio.gather(*work))
