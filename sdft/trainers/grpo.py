"""GRPO on a web environment, with TRL's `GRPOTrainer`: what SDFT is compared with where there is only a reward.

A group is several episodes of the same task and seed. An episode's advantage is its reward less the group's mean, in
units of the group's standard deviation, and every step of it is a row with that advantage; the loss is TRL's. TRL's
own generation makes one sequence an episode, while an agent here writes a new prompt for every step, so the batch is
made from episodes as for SDFT: tokens verbatim, scored under the mask and the temperature they were sampled with,
rows packed. Episodes that the infrastructure failed belong to no group. Where no group has an advantage, the optimizer
still makes its step, as TRL's does: by its momentum.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from selfsurf.agents.policies.transformers.policy import TransformersPolicy
from selfsurf.sdft.agent import make_agent
from selfsurf.sdft.loss.distillation import FORBIDDEN
from selfsurf.sdft.loss.logits import packed_logits, plain_logits
from selfsurf.sdft.rollouts import Job, Result, Rollouts
from selfsurf.sdft.rollouts.models import reuse
from selfsurf.sdft.rows.jobs import training_jobs
from selfsurf.sdft.rows.samples import Sample, allowed_tokens, choose, collate, idle, samples_of
from selfsurf.sdft.run.metrics import Progress
from selfsurf.sdft.run.run import Run, refuse_images, refuse_sdft_only, run_training
from selfsurf.sdft.settings import GRPOSettings
from selfsurf.sdft.teacher.lessons import Lessons
from selfsurf.sdft.teacher.oracle import Untold
from selfsurf.sdft.trainers.base import RunTrainer, shared_arguments


def train_grpo(
    settings: GRPOSettings,
    out: str | Path,
    *,
    policy: TransformersPolicy | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Train an adapter by GRPO; arguments, files in `out` and what is returned are as with `sdft.train`."""
    refuse_sdft_only(settings)
    return run_training(settings, out, lambda *_: _trainer, policy=policy, resume=resume, progress=progress)


@contextlib.contextmanager
def _trainer(run: Run) -> Iterator[EpisodeGRPOTrainer]:
    refuse_images(run)
    settings = cast(GRPOSettings, run.settings)
    groups = training_jobs(settings)[: settings.steps * settings.episodes_per_step // settings.group_size]
    size, most = settings.episodes_per_step, settings.rollouts.batch
    with Rollouts(size, most=most, max_episode_steps=settings.max_episode_steps) as rollouts:
        yield EpisodeGRPOTrainer(
            settings=settings,
            rollouts=rollouts,
            args=GRPOConfig(
                **shared_arguments(settings, run.folder / "checkpoints"),
                per_device_train_batch_size=size,
                num_generations=settings.group_size,
                steps_per_generation=1,
                shuffle_dataset=False,
                temperature=settings.temperature,
                max_completion_length=settings.max_new_tokens,
                disable_dropout=True,
            ),
            train_dataset=Dataset.from_list([dataclasses.asdict(job) for job in groups]),
            processing_class=run.policy.tokenizer,
            callbacks=run.callbacks,
            **run.learner,
        )


class EpisodeGRPOTrainer(RunTrainer, GRPOTrainer):
    """GRPO from episodes.

    Args:
        settings: of the run.
        rollouts: the environments.
        options: as TRL's trainer; `train_dataset` has the columns `env_id` and `seed`.
    """

    def __init__(self, *, settings: GRPOSettings, rollouts: Rollouts, **options: Any) -> None:
        self._settings = settings
        self._rollouts = rollouts
        self._allowed = torch.empty(0, dtype=torch.bool)
        super().__init__(reward_funcs=_reward_of_episode, **options)
        self.policy = TransformersPolicy(self.model, self._tokenizer, reuse=reuse(rollouts.most))
        self.agent = make_agent(self.policy, settings, sampling=True)
        self.seconds["rollout"] = 0.0

    def _set_signature_columns_if_needed(self) -> None:
        self._signature_columns = ["env_id", "seed"]

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        start = time.perf_counter()
        rng = np.random.default_rng([self.args.seed, self.state.global_step])
        self.policy.forget()  # the weights are others than in the last batch
        self.agent.reseed(int(rng.integers(2**31)))
        results = self._rollouts.run(self.agent, [Job(row["env_id"], row["seed"]) for row in inputs])
        self.learned = self.count_failed(results)
        gains = advantages(results, self._settings.group_size)
        rows, weights = self._rows(results, gains, rng)
        padded = rows or [idle(self._tokenizer.pad_token_id)]
        batch = collate(padded, self._tokenizer.pad_token_id)
        batch["allowed"] = allowed_tokens(padded, self.policy)
        self._note_batch(results, gains, rows)
        kept = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask", "allowed")
        made = {key: batch[key].to(self.accelerator.device) for key in kept}
        if not rows:
            made["completion_mask"].zero_()
        made["advantages"] = torch.tensor(weights or [0.0], device=self.accelerator.device)
        made["num_items_in_batch"] = made["completion_mask"].sum().clamp(min=1)
        self.seconds["rollout"] += time.perf_counter() - start
        return made

    def _rows(
        self, results: list[Result], gains: Sequence[float], rng: np.random.Generator
    ) -> tuple[list[Sample], list[float]]:
        """Steps to learn from and the advantage of each: of episodes with one, as far as there are such."""
        found: list[tuple[Sample, float]] = []
        for result, gain in zip(results, gains, strict=True):
            found += [(sample, gain) for sample in samples_of([result], self.policy, Lessons((Untold(),)))]
        telling = [pair for pair in found if pair[1]] or found
        weight = {id(sample): gain for sample, gain in telling}
        rows = choose([sample for sample, _ in telling], self._settings.max_rows, rng)
        return rows, [weight[id(row)] for row in rows]

    def _note_batch(self, results: list[Result], gains: Sequence[float], rows: list[Sample]) -> None:
        judged = [result for result in results if result.trainable]
        self.note({
            "episodes/success": sum(result.solved for result in judged) / max(len(judged), 1),
            "episodes/masked": len(results) - len(judged),
            "episodes/with_advantage": sum(bool(gain) for gain in gains),
            "reward": sum(result.reward for result in judged) / max(len(judged), 1),
            "rows": len(rows),
            "rows/prompt_tokens": float(np.mean([len(row.prompt_ids) for row in rows] or [0])),
            "tokens/learned": sum(len(row.completion_ids) for row in rows),
        })  # fmt: skip

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        self._allowed = inputs["allowed"]
        loss: torch.Tensor = super()._compute_loss(model, inputs)
        return loss

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor, logits_to_keep: int, **_: Any
    ) -> tuple[torch.Tensor, torch.Tensor, None]:
        """Score completions under the mask that they were sampled under, which TRL knows nothing of."""
        length = input_ids.size(1)
        at = torch.arange(length - logits_to_keep - 1, length - 1, device=input_ids.device).expand(len(input_ids), -1)
        read = packed_logits if self.packable else plain_logits
        logits = read(model, input_ids, attention_mask, at).float() / self.temperature
        logprobs = torch.log_softmax(logits.masked_fill(~self._allowed, FORBIDDEN), -1)
        entropies = -(logprobs.exp() * logprobs).sum(-1).detach()
        chosen = input_ids[:, -logits_to_keep:, None]
        return logprobs.gather(-1, chosen)[..., 0], entropies, None


def advantages(results: Sequence[Result], group_size: int) -> list[float]:
    """Return each episode's advantage within its group; 0 for what the infrastructure failed or where all are alike."""
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


def _reward_of_episode(**_: Any) -> list[float]:
    """Stands for TRL's reward functions, which judge a completion; here the environment judges episodes."""
    raise NotImplementedError("Rewards come from the episodes.")
