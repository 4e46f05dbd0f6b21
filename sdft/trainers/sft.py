"""Supervised fine-tuning on oracles' demonstrations or recorded episodes: the baseline for SDFT.

The oracle plays the training episodes, or they have been recorded (`TrainSettings.episodes`); no model is queried. A
row is the prompt that the student would have seen and the right action as the student would have written it. The loss
covers only the action.
"""

from __future__ import annotations

import contextlib
import json
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Unpack, cast

import numpy as np
import torch
from torch.utils.data import DataLoader

from selfsurf.agents.llm.llm_agent import LLMAgent
from selfsurf.agents.policies.transformers.policy import TransformersPolicy
from selfsurf.browser_env.record.episode import write_atomically
from selfsurf.sdft.agent import make_agent
from selfsurf.sdft.loss.distillation import cross_entropy
from selfsurf.sdft.processes import check_alone
from selfsurf.sdft.rollouts import Job, Result, RolloutError, Rollouts
from selfsurf.sdft.rows.demonstrator import Demonstrator
from selfsurf.sdft.rows.jobs import check_live, offline_states, training_jobs
from selfsurf.sdft.rows.samples import Sample, choose, collate, samples_of
from selfsurf.sdft.rows.stored_states import StoredGenerator
from selfsurf.sdft.run.batches import MOST_FAILED
from selfsurf.sdft.run.run import MakeTrainer, Run, TrainOptions, refuse_images, refuse_sdft_only, run_training
from selfsurf.sdft.settings import TrainSettings
from selfsurf.sdft.teacher.lessons import LessonContext
from selfsurf.sdft.teacher.oracle import OracleContext
from selfsurf.sdft.trainers.base import RunTrainer

Collect = Callable[[TrainSettings, TransformersPolicy, Path], dict[str, int]]
"""Function that writes the rows of a run to a file, one per line, such as `collect`."""


def collect(settings: TrainSettings, policy: TransformersPolicy, path: Path) -> dict[str, int]:
    """Play the episodes of a run with the oracles, or read recorded ones, and write their rows to `path`, one per line.

    At most `max_rows` steps are kept of the episodes of each optimizer step, evenly over the tasks, as in SDFT.

    Returns:
        The number of `rows`, and of episodes that the infrastructure failed (`masked`).

    Raises:
        RolloutError: the infrastructure failed every episode of several batches in a row.
        RuntimeError: no oracle gave a demonstration.
    """
    agent = make_agent(policy, settings, sampling=False, kind=Demonstrator)
    jobs, size = training_jobs(settings), settings.episodes_per_step
    oracle = OracleContext(settings.actions)
    oracle.labels = settings.labels
    lessons = LessonContext((oracle,))
    rows: list[Sample] = []
    masked = failed = 0
    with _demonstrations(settings, agent) as shown:
        for step in range(settings.steps):
            results = shown(jobs[step * size : (step + 1) * size])
            masked += sum(result.masked for result in results)
            failed = failed + 1 if all(result.masked for result in results) else 0
            if failed == min(MOST_FAILED, settings.steps):
                raise RolloutError(
                    f"The environment failed in every episode of the last {failed} batches ({results[0].detail}). Fix "
                    "the cause, then run the same command again."
                )
            rng = np.random.default_rng([settings.seed, step])
            rows += choose(samples_of(results, policy, lessons), settings.max_rows, rng)
    if not rows:
        raise RuntimeError(
            "No oracle gave a demonstration: the tasks have no oracle, or their oracles use kinds of actions that are "
            "missing from the setting `actions`."
        )
    write_rows(rows, path)
    if masked:
        warnings.warn(
            f"{masked} of {len(jobs)} episodes failed because of the environment and gave no rows.", stacklevel=2
        )
    return {"rows": len(rows), "masked": masked}


def write_rows(rows: Iterable[Sample], path: Path) -> None:
    """Write the learned parts of rows to a file, one per line, for `row_trainer`."""
    lines = [{"env_id": row.env_id, "prompt_ids": row.prompt_ids, "completion_ids": row.completion_ids} for row in rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, "".join(json.dumps(line) + "\n" for line in lines))


@contextlib.contextmanager
def _demonstrations(settings: TrainSettings, agent: LLMAgent) -> Iterator[Callable[[list[Job]], list[Result]]]:
    """Yield a function that returns episodes with the right actions, played by oracles or recorded."""
    if settings.offline:
        states, _ = offline_states(settings)
        yield StoredGenerator(agent, states, demonstrate=True).taken
        return
    around = settings.environment.options()
    with Rollouts(settings.episodes_per_step, max_episode_steps=settings.max_episode_steps, **around) as rollouts:
        yield lambda jobs: rollouts.run(agent, jobs, demonstrate=True)


def train_sft(
    settings: TrainSettings, out: str | Path, *, rows: Path | None = None, **options: Unpack[TrainOptions]
) -> dict[str, Any]:
    """Train an adapter on demonstrations. Files in `out` and the return value are those of `sdft.train`.

    Args:
        settings: settings as for SDFT: `steps`, `max_rows`, the learning rate and its schedule, the adapter, tasks,
            seeds and prompts. Settings of the teacher and of sampling have no effect.
        out: folder of the run.
        rows: demonstrations written by `collect`; by default they are collected into `out`.
        options: as with `sdft.train`.
    """
    refuse_sdft_only(settings)
    check_alone("SFT")
    settings = settings.model_copy(update={"evaluate_every": 0})

    def check(*_: Any) -> MakeTrainer:
        if rows is None:
            check_live(settings, training_jobs(settings))
        return partial(row_trainer, rows=rows, collect=collect)

    return run_training(settings, out, check, **options)


@contextlib.contextmanager
def row_trainer(run: Run, rows: Path | None, collect: Collect) -> Iterator[DemonstrationTrainer]:
    """Make the trainer of a run from the rows of a file, or from rows collected into the run's folder."""
    refuse_images(run)
    settings, collected, path = run.settings, 0.0, rows or run.folder / "rows.jsonl"
    if rows is None and (run.last is None or not path.exists()):
        start = time.perf_counter()
        collect(settings, run.policy, path)
        collected = time.perf_counter() - start
    lines = [json.loads(line) for line in path.read_text("utf8").splitlines()]
    if len(lines) < settings.steps:
        few = f"There are only {len(lines)} demonstrations for {settings.steps} steps, so they are repeated."
        warnings.warn(few, stacklevel=2)
    samples = [Sample(one["env_id"], one["prompt_ids"], [], one["completion_ids"], [], [], None, None) for one in lines]
    trainer = DemonstrationTrainer(items=samples, processing_class=run.policy.tokenizer, **run.given)
    trainer.seconds["collect"] = collected
    yield trainer


def batches_of(rows: int, steps: int) -> list[range]:
    """Return the rows of each step: all rows once, in order, in batches of nearly equal size.

    Fewer rows than steps make batches of one row; after the last row, training starts over with the first.
    """
    count = min(rows, steps)
    return [range(rows * step // count, rows * (step + 1) // count) for step in range(count)]


class DemonstrationTrainer(RunTrainer):
    """SFT trainer on the steps of demonstrations, each learned from once."""

    def compute_loss(self, model: Any, inputs: dict[str, Any], *_: Any, **__: Any) -> torch.Tensor:
        """Return the mean negative log-likelihood per learned token, in nats, plus the losses against forgetting."""
        ids, mask = inputs["completion_ids"], inputs["completion_mask"]
        loss = (cross_entropy(self.student_logits(model, inputs), ids) * mask).sum()
        return loss / self.over_all(float(mask.sum())) + self.forgetting(model)

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Return the batches in order. Transformers' equal-sized batches would learn some rows twice."""
        rows: Any = self.train_dataset
        batches = batches_of(len(rows), self.args.max_steps)
        loader: DataLoader[Any] = DataLoader(rows, batch_sampler=batches, collate_fn=list)
        return cast("DataLoader[Any]", self.accelerator.prepare(loader))

    def _prepare_inputs(self, inputs: list[Sample]) -> dict[str, Any]:  # type: ignore[override]
        batch = collate(inputs, self.pad_id)
        self.note({
            "rows": len(inputs),
            "rows/prompt_tokens": float(batch["prompt_mask"].sum(-1).float().mean()),
            "tokens/learned": int(batch["completion_mask"].sum()),
        })  # fmt: skip
        return {name: value.to(self.accelerator.device) for name, value in batch.items()}
