"""Supervised fine-tuning on the oracles' demonstrations, with TRL's `SFTTrainer`: what SDFT is compared with.

The oracle plays the training episodes and no model is asked. A row is the prompt that the student would have seen and
the oracle's action as the student would have written it; the loss is on the action alone.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from datasets import Dataset
from torch.utils.data import DataLoader
from trl import SFTConfig, SFTTrainer

from selfsurf.agents.agent import Act, Privileged
from selfsurf.agents.llm_agent import Decision, LLMAgent
from selfsurf.agents.policies.local.prompts import token_ids
from selfsurf.agents.policies.transformers.policy import TransformersPolicy
from selfsurf.agents.policy import Completion, Conversation
from selfsurf.agents.reply.compact import compact
from selfsurf.browser_env.actions import Infeasible, parse_action
from selfsurf.browser_env.observation import Observation
from selfsurf.browser_env.record.episode import write_atomically
from selfsurf.sdft.agent import make_agent
from selfsurf.sdft.loss.remembering import Remembering
from selfsurf.sdft.loss.scoring import make_ready, packed_logits
from selfsurf.sdft.rollouts import RolloutError, Rollouts
from selfsurf.sdft.rows.jobs import training_jobs
from selfsurf.sdft.rows.samples import choose, samples_of
from selfsurf.sdft.run.checkpoints import WholeCheckpoints
from selfsurf.sdft.run.metrics import Progress
from selfsurf.sdft.run.running import Run, run_training
from selfsurf.sdft.settings import TrainSettings
from selfsurf.sdft.teacher.lessons import Lessons
from selfsurf.sdft.teacher.oracle import Oracle
from selfsurf.sdft.trainers.arguments import shared_arguments
from selfsurf.sdft.trainers.idling import MOST_FAILED

IGNORED = -100
"""Label of a token that no loss is taken on."""


class Demonstrator(LLMAgent):
    """Does what it is told is right, and notes what the student would have seen and written."""

    def act_batch(
        self,
        observations: Sequence[Observation],
        slots: Sequence[int] | None = None,
        *,
        privileged: Sequence[Privileged | None] | None = None,
        seeds: Sequence[int] | None = None,
    ) -> list[Act]:
        """Take the privileged actions; an episode without one is given up. Nothing is drawn, so `seeds` say nothing."""
        slots = list(range(len(observations))) if slots is None else list(slots)
        told = [None] * len(observations) if privileged is None else list(privileged)
        self.decisions = [
            self._demonstrated(obs, slot, hint) for obs, slot, hint in zip(observations, slots, told, strict=True)
        ]
        return [decision.action for decision in self.decisions]

    def _demonstrated(self, obs: Observation, slot: int, hint: Privileged | None) -> Decision:
        messages, visible_ids = self._prompt(obs, self._slots[slot], None)
        if hint is None:
            unknown = Completion("", [], [], [], None, "eos")
            return Decision(Infeasible(reason="The task has no oracle here."), unknown, messages, visible_ids, "none")
        action = parse_action(hint["action"])
        written = self._written(compact(action), messages)
        return replace(self.follow(obs, action, slot), completion=written, messages=messages, visible_ids=visible_ids)

    def _written(self, reply: str, messages: Conversation) -> Completion:
        """The reply as the student would write it: after its prefill, with its tokens, its turn ended."""
        policy = cast(TransformersPolicy, self.policy)
        prefill = token_ids(policy.tokenizer, self.prefill)
        rest = [*token_ids(policy.tokenizer, reply.removeprefix(self.prefill)), policy.tokenizer.eos_token_id]
        return Completion(reply, policy.encode(messages) + prefill, rest, [], None, "eos", prefill)


def collect(settings: TrainSettings, policy: TransformersPolicy, path: Path) -> dict[str, int]:
    """Let the oracles play the episodes of a run, and write a row a line to `path`.

    Of the episodes of each optimizer step at most `max_rows` steps are kept, evenly over the tasks, as SDFT does it.

    Returns:
        The number of `rows`, and of episodes that the infrastructure failed (`masked`).

    Raises:
        RolloutError: it failed every episode of several batches in a row.
        RuntimeError: no oracle gave a demonstration.
    """
    agent = make_agent(policy, settings, sampling=False, kind=Demonstrator)
    jobs, size = training_jobs(settings), settings.episodes_per_step
    lessons = Lessons((Oracle(settings.actions),))
    lines: list[str] = []
    masked = failed = 0
    with Rollouts(size, max_episode_steps=settings.max_episode_steps) as rollouts:
        for step in range(settings.steps):
            results = rollouts.run(agent, jobs[step * size : (step + 1) * size], demonstrate=True)
            masked += sum(result.masked for result in results)
            failed = failed + 1 if all(result.masked for result in results) else 0
            if failed == min(MOST_FAILED, settings.steps):
                raise RolloutError(
                    f"The environment failed every episode of the last {failed} batches ({results[0].detail}). When "
                    "that is mended, the same command begins again."
                )
            rng = np.random.default_rng([settings.seed, step])
            lines += [
                json.dumps({"env_id": row.env_id, "prompt_ids": row.prompt_ids, "completion_ids": row.completion_ids})
                for row in choose(samples_of(results, policy, lessons), settings.max_rows, rng)
            ]
    if not lines:
        raise RuntimeError(
            "No oracle gave a demonstration: the tasks have none, or only such as act in ways that the agent is not "
            "offered (actions)."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, "\n".join(lines) + "\n")
    if masked:
        warnings.warn(f"{masked} of {len(jobs)} episodes failed by the environment: no rows of them.", stacklevel=2)
    return {"rows": len(lines), "masked": masked}


def train_sft(
    settings: TrainSettings,
    out: str | Path,
    *,
    rows: Path | None = None,
    policy: TransformersPolicy | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Train an adapter on demonstrations; what `out` holds and what is returned are as with `sdft.train.train`.

    Args:
        settings: what they mean for SDFT: `steps`, `max_rows`, the learning rate and its schedule, the adapter, tasks,
            seeds and prompts. What concerns the teacher or sampling is without effect.
        out: folder of the run.
        rows: demonstrations written by `collect`; they are collected into `out` if not given.
        policy: see `sdft.train.train`.
        resume: the same.
        progress: the same.
    """

    def make(run: Run, options: dict[str, Any]) -> DemonstrationTrainer:
        collected, path = 0.0, rows or run.folder / "rows.jsonl"
        if rows is None and (run.last is None or not path.exists()):
            start = time.perf_counter()
            collect(settings, run.policy, path)
            collected = time.perf_counter() - start
        dataset = Dataset.from_list([_example(json.loads(line)) for line in path.read_text("utf8").splitlines()])
        if len(dataset) < settings.steps:
            few = (
                f"There are {len(dataset)} demonstrations for {settings.steps} steps: they are learned from repeatedly."
            )
            warnings.warn(few, stacklevel=2)
        trainer = DemonstrationTrainer(
            args=SFTConfig(
                **shared_arguments(settings, run.folder / "checkpoints"),
                max_length=None,
                dataset_kwargs={"skip_prepare_dataset": True},
            ),
            train_dataset=dataset,
            **options,
        )
        trainer.batches = batches_of(len(dataset), settings.steps)
        trainer.seconds["collect"] = collected
        return trainer

    return run_training(settings, out, make, policy=policy, resume=resume, progress=progress)


def batches_of(rows: int, steps: int) -> list[range]:
    """Return which rows are learned from in which step: all once, in order, nearly as many in every step.

    Fewer rows than steps are a batch each; when all were learned from, a training begins with them again.
    """
    count = min(rows, steps)
    return [range(rows * step // count, rows * (step + 1) // count) for step in range(count)]


class PackedSFTTrainer(SFTTrainer):
    """TRL's trainer and its loss, computed as SDFT's is: rows packed, logits of the learned tokens alone."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._packable = make_ready(self.model)

    def compute_loss(self, model: Any, inputs: Any, *args: Any, num_items_in_batch: Any = None, **kwargs: Any) -> Any:
        """Mean over the batch's learned tokens of the negative log-likelihood, in nats."""
        if not self._packable:
            return super().compute_loss(model, inputs, *args, num_items_in_batch=num_items_in_batch, **kwargs)
        labels, mask = inputs["labels"], inputs["attention_mask"]
        learned = labels[:, 1:] != IGNORED
        at = (~learned).int().argsort(dim=1, stable=True)[:, : int(learned.sum(1).max())]
        told = labels[:, 1:].gather(1, at)
        logits = packed_logits(model, inputs["input_ids"], mask, at).float()
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), told.flatten(), ignore_index=IGNORED, reduction="sum"
        )
        if num_items_in_batch is None:
            return loss / learned.sum()
        processes = self.accelerator.num_processes if self.args.average_tokens_across_devices else 1
        return loss / num_items_in_batch * processes


class DemonstrationTrainer(Remembering, WholeCheckpoints, PackedSFTTrainer):
    """The trainer of a run, which notes what it learned from as the SDFT trainer does."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.batches: list[range] = []
        """The rows of every step."""
        self.seconds = {"collect": 0.0, "learn": 0.0}
        """Wall-clock so far, by what it went into."""

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Return the batches in order; transformers' own are all of one size, which learns some rows twice."""
        loader: DataLoader[Any] = DataLoader(
            cast(Any, self.train_dataset), batch_sampler=self.batches, collate_fn=self.data_collator
        )
        return cast("DataLoader[Any]", self.accelerator.prepare(loader))

    def training_step(self, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> torch.Tensor:
        """One forward and backward pass."""
        start = time.perf_counter()
        learned = (inputs["labels"] != IGNORED).sum(-1)
        length = inputs["attention_mask"].sum(-1)
        metrics = self._metrics["train"]
        metrics["rows"].append(len(learned))
        metrics["rows/prompt_tokens"].append(float((length - learned).float().mean()))
        metrics["tokens/learned"].append(int(learned.sum()))
        loss: torch.Tensor = super().training_step(model, inputs, *args, **kwargs)
        self.seconds["learn"] += time.perf_counter() - start
        return loss


def _example(row: dict[str, Any]) -> dict[str, list[int]]:
    prompt, completion = row["prompt_ids"], row["completion_ids"]
    return {"input_ids": prompt + completion, "labels": [IGNORED] * len(prompt) + completion}
