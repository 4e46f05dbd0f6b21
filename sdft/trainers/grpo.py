"""GRPO on a web environment: the baseline for SDFT where only a reward exists.

A group is several episodes of the same task and seed. An episode's advantage is its reward (the task's final score)
minus the group's mean, divided by the group's standard deviation, and every step of the episode is a row with that
advantage. The loss is the default of TRL's `GRPOTrainer` for samples that are learned from once: the likelihood of the
sampled tokens, weighted by the advantage, averaged over all tokens. TRL makes one sequence of an episode; an agent here
writes a new prompt for every step, so rows are made as for SDFT: verbatim tokens, packed, and scored under the mask and
temperature of their sampling. Episodes that the infrastructure failed belong to no group. If no group has an advantage,
the optimizer still makes its step by momentum, as with TRL.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Unpack, cast

import numpy as np
import torch

from selfsurf.envs_registry import task_of
from selfsurf.envs_registry.loading import short_name
from selfsurf.sdft.agent import make_agent
from selfsurf.sdft.loss.scoring import token_logprobs
from selfsurf.sdft.processes import check_alone
from selfsurf.sdft.rollouts import Job, Result, Rollouts
from selfsurf.sdft.rows.jobs import check_live, trained_tasks, training_jobs
from selfsurf.sdft.rows.samples import choose, rows_of
from selfsurf.sdft.run.metrics import batch_figures
from selfsurf.sdft.run.run import MakeTrainer, Run, TrainOptions, refuse_images, refuse_sdft_only, run_training
from selfsurf.sdft.run.workers import generating
from selfsurf.sdft.settings import GRPOSettings
from selfsurf.sdft.trainers.base import EpisodeTrainer


def train_grpo(settings: GRPOSettings, out: str | Path, **options: Unpack[TrainOptions]) -> dict[str, Any]:
    """Train an adapter by GRPO. Arguments, files in `out` and the return value are those of `sdft.train`."""
    refuse_sdft_only(settings, workers=True)
    check_alone("GRPO")
    if settings.offline:
        raise ValueError("GRPO plays its own episodes: give tasks or demonstrations instead of recorded episodes.")
    if settings.rollouts.ahead:
        raise ValueError("rollouts.ahead works with SDFT only: GRPO must sample with the weights that it trains.")

    def check(*_: Any) -> MakeTrainer:
        check_live(settings, training_jobs(settings))
        if unjudged := [task for task in trained_tasks(settings) if not task_of(task).judges]:
            raise ValueError(
                f"GRPO learns from rewards, but these tasks have no judge: {', '.join(map(short_name, unjudged))}."
            )
        return _trainer

    return run_training(settings, out, check, **options)


@contextlib.contextmanager
def _trainer(run: Run) -> Iterator[EpisodeGRPOTrainer]:
    refuse_images(run)
    settings = cast(GRPOSettings, run.settings)
    first = training_jobs(settings)[: settings.steps * settings.episodes_per_step // settings.group_size]
    size, most = settings.episodes_per_step, settings.rollouts.batch
    around = settings.environment.options()
    environment = {"max_episode_steps": settings.max_episode_steps, **around}
    acting = partial(make_agent, settings=settings, sampling=True)
    with (
        Rollouts(size, most=most, **environment) as rollouts,
        generating(settings.rollouts, run.policy, run.lora, acting, environment) as generator,
    ):
        jobs = [job for job in first for _ in range(settings.group_size)]
        yield EpisodeGRPOTrainer(
            jobs=jobs, rollouts=rollouts, generator=generator, processing_class=run.policy.tokenizer, **run.given
        )


class EpisodeGRPOTrainer(EpisodeTrainer):
    """GRPO trainer on episodes. Arguments are those of `EpisodeTrainer`; the `jobs` of a group are adjacent."""

    settings: GRPOSettings

    def compute_loss(self, model: Any, inputs: dict[str, Any], *_: Any, **__: Any) -> torch.Tensor:
        """Return the policy gradient loss: the sampled tokens' likelihood, weighted by their episode's advantage."""
        logprobs, mask = self.logprobs(model, inputs), inputs["completion_mask"]
        gain = (logprobs - logprobs.detach()).exp() * inputs["advantages"][:, None]
        return -(gain * mask).sum() / mask.sum().clamp(min=1) + self.forgetting(model)

    def logprobs(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        """Return the log-probabilities (B, C) of the sampled tokens under the grammar's mask of their sampling."""
        return token_logprobs(self.student_logits(model, inputs), inputs["completion_ids"], inputs["allowed"])

    def _prepare_training_batch(self, jobs: list[Job]) -> dict[str, Any]:
        rng = np.random.default_rng([self.settings.seed, self.state.global_step])
        self.agent.reseed(int(rng.integers(2**31)))
        self.collector.publish(version=self.state.global_step)
        results = self.collector.collect(self.collector.request(jobs, seed=self.agent.next_seed())).results
        self.learned = self.count_failed(results)
        gains = advantages(results, self.settings.group_size)
        rows_each = rows_of(results, self.policy)
        found = [(sample, gain) for samples, gain in zip(rows_each, gains, strict=True) for sample in samples]
        telling = [pair for pair in found if pair[1]] or found  # prefer episodes with an advantage
        weight = {id(sample): gain for sample, gain in telling}
        rows = choose([sample for sample, _ in telling], self.max_rows, rng)
        rewards = [result.reward for result in results if result.trainable]
        self.note({
            **batch_figures(results, [sample for sample, _ in found], rows),
            "episodes/with_advantage": sum(map(bool, gains)),
            "reward": sum(rewards) / max(len(rewards), 1),
        })  # fmt: skip
        weights = torch.tensor([weight[id(row)] for row in rows] or [0.0], device=self.accelerator.device)
        return {**self.collate(rows, allowed=True), "advantages": weights}


def advantages(results: Sequence[Result], group_size: int) -> list[float]:
    """Return each episode's advantage within its group; 0 if the infrastructure failed it or all rewards are equal."""
    found = []
    for first in range(0, len(results), group_size):
        group = results[first : first + group_size]
        rewards = np.array([result.reward if result.trainable else np.nan for result in group])
        judged = rewards[~np.isnan(rewards)]
        spread = float(judged.std(ddof=1)) if len(judged) > 1 else 0.0
        for reward in rewards:
            told = spread > 0 and not np.isnan(reward)
            found.append(float((reward - judged.mean()) / (spread + 1e-4)) if told else 0.0)
    return found
