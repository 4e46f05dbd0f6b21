"""SDFT on a web environment: TRL's `SDFTTrainer`, with episodes instead of a dataset of prompts.

What a batch is: the dataset's rows are jobs (environment id, seed). For each batch the student acts in those
episodes; every step of them becomes a row. The teacher is the same model with what it is told (`sdft.teacher`) in its
context and the EMA adapter in force, and scores the student's own tokens.

What differs from TRL's trainer, and why:
- rows come from episodes, tokens verbatim; nothing is re-tokenised;
- the teacher's prompt has no length limit of its own (TRL cuts it from the left, which drops the instructions);
- the teacher's adapter starts as a copy of the student's (`sdft.teacher.weights`);
- with `under_grammar`, student and teacher are scored under the mask that the student sampled under; forced tokens so
  weigh nothing;
- the output layer sees contiguous input (`agents.policies.transformers.policy.make_lm_head_contiguous`);
- a vision-language model is given the images that it sampled from (`sdft.rows.images`);
- of several processes, one that learns nothing takes part all the same (TRL leaves the others waiting).
- rows are scored without padding, with what they share read once (`sdft.loss.scoring`), where there was a choice, and
  through leaner LoRA layers (`sdft.loss.lora`): the same numbers sooner.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from datasets import IterableDataset
from trl.experimental.sdft import SDFTConfig, SDFTTrainer
from trl.experimental.sdft.sdft_trainer import DistillationLogits

from selfsurf.agents.llm_agent import LLMAgent
from selfsurf.agents.policies.transformers.policy import TransformersPolicy
from selfsurf.agents.prompt.prompt import Sight
from selfsurf.sdft.loss.remembering import Remembering
from selfsurf.sdft.loss.scoring import (
    FORBIDDEN,
    as_if_over_all,
    at_tokens,
    choices,
    make_ready,
    over_teachers_top,
    packed_logits,
    plain_logits,
)
from selfsurf.sdft.rollouts import Generator, Job, LocalGenerator, Result, Rollouts
from selfsurf.sdft.rollouts.models import reuse
from selfsurf.sdft.rollouts.pipeline import Pipeline, figures
from selfsurf.sdft.rows.gates import Gates, passed
from selfsurf.sdft.rows.images import Seen, model_inputs
from selfsurf.sdft.rows.samples import choose, collate, idle, samples_of
from selfsurf.sdft.run.checkpoints import WholeCheckpoints
from selfsurf.sdft.run.metrics import batch_figures, memory_figures
from selfsurf.sdft.run.processes import check_sharding, whole
from selfsurf.sdft.teacher.lessons import Lessons
from selfsurf.sdft.teacher.oracle import Oracle
from selfsurf.sdft.teacher.weights import FollowStudent, add_teacher, student_weights, teaching
from selfsurf.sdft.trainers.idling import MOST_FAILED, Idling, LeaveAlone

_ACTIONS = 1
"""Tells the seeds of a step's actions from those of its choice of rows."""


class NothingToTeach(ValueError):
    """The teacher is no different from the student."""


_TEACHERS: dict[str, Callable[[Any], AbstractContextManager[Any]]] = {
    "ema": teaching,
    "base": lambda model: model.disable_adapter(),  # type: ignore[no-any-return]
    "live": contextlib.nullcontext,
}
"""Contexts in which a model is its teacher, by `teacher_model_kind`."""

AgentOf = Callable[[TransformersPolicy], LLMAgent]


@contextlib.contextmanager
def _without_remark() -> Iterator[None]:
    """Within this context TRL does not warn of a model that has an adapter: its teacher would be unclear, not ours."""

    def kept(record: logging.LogRecord) -> bool:
        return "already contains a PEFT adapter" not in record.getMessage()

    logger = logging.getLogger(SDFTTrainer.__module__)
    logger.addFilter(kept)
    try:
        yield
    finally:
        logger.removeFilter(kept)


def _why_untold(results: Sequence[Result]) -> str:
    """Say why nothing was told about a batch."""
    sampled = any(step.decision.completion.token_ids for result in results for step in result.steps)
    if not sampled and any(result.led for result in results):
        return "the oracle took every step of every episode, and the student none. Set `lead` lower."
    return (
        "nothing could be told about any step. The right actions may be of kinds that the student is not offered "
        '(--set \'actions=["click","fill","select","press"]\' offers more), or about elements that it is not shown '
        "(max_prompt_tokens)."
    )


def _why_left_out(left_out: Mapping[str, int], *, any_before: bool) -> str:
    """Say why nothing of a batch was left to learn from, about which something was told."""
    if not any_before:
        return "no action has more tokens than are skipped. Set `skip_tokens` lower."
    counts = ", ".join(f"{name} {count}" for name, count in left_out.items() if count)
    return (
        f"the gates left out all of it (rows, for confidence tokens: {counts}). The student may do the tasks already; "
        "or set skip_right, skip_solved, min_divergence or min_confidence lower or off."
    )


class EpisodeSDFTTrainer(Idling, Remembering, WholeCheckpoints, SDFTTrainer):
    """SDFT from on-policy episodes.

    Args:
        agent_of: makes the acting agent around a policy; it samples at `args.temperature`, without guards.
        rollouts: the environments.
        generator: makes the episodes; by default in this process, in `rollouts`. One that works ahead is asked for the
            next batch before the current one is learned from.
        max_rows: most rows of one optimizer step; more steps than that are drawn from evenly by task.
        lead: how likely the oracle is to begin an episode (`agents.play.player.Manner`), without a `generator`.
        lessons: what the teacher is told; the oracle's actions by default.
        mean_over: whether rows or tokens count the same in the loss.
        under_grammar: as in `TrainSettings`.
        teacher_sees: as in `TrainSettings`.
        teacher_temperature: sharpens (below 1) the teacher's distribution, on top of `args.temperature`.
        gates: which rows and tokens are learned from.
        least_first_divergence: nats a token between teacher and student before the first step, below which it stops;
            None in a run that is gone on with, where it was measured.
        options: as TRL's trainer; `train_dataset` has the columns `env_id` and `seed`, and `args` must be given.

    Raises:
        ValueError: `args` asks for what this trainer does not do.
    """

    def __init__(
        self,
        *,
        agent_of: AgentOf,
        rollouts: Rollouts,
        generator: Generator | None = None,
        max_rows: int,
        lead: float = 0.0,
        lessons: Lessons | None = None,
        args: SDFTConfig,
        mean_over: Literal["rows", "tokens"] = "rows",
        under_grammar: bool = False,
        teacher_sees: Sight = "all",
        teacher_temperature: float = 1.0,
        gates: Gates = Gates(),  # noqa: B008  (frozen)
        least_first_divergence: float | None = 0.0,
        **options: Any,
    ) -> None:
        if args is None:
            raise ValueError("args must be given: TRL's own defaults are not those of the paper.")
        if isinstance(options.get("train_dataset"), IterableDataset):
            raise ValueError("A run's episodes are counted beforehand: give a Dataset, not an IterableDataset.")
        if args.steps_per_generation != 1 or args.num_iterations != 1 or args.num_generations != 1:
            raise ValueError("Episodes make batches of varying size: set steps_per_generation, num_iterations and "
                             "num_generations to 1.")  # fmt: skip
        self._max_rows = max_rows
        self._lessons = lessons or Lessons((Oracle(),))
        self._mean_over = mean_over
        self._under_grammar = under_grammar
        self._teacher_temperature = teacher_temperature
        self._teacher_sees = teacher_sees
        self._gates = gates
        self._least_first_divergence = least_first_divergence
        """None once teacher and student have been compared."""
        with _without_remark():
            super().__init__(args=args, **options)
        self._packable = make_ready(self.model)
        self.policy = TransformersPolicy(self.model, self.processing_class, reuse=reuse(rollouts.most))
        self.agent = agent_of(self.policy)
        rank = [self.accelerator.process_index] if self.accelerator.process_index else []
        self.pipeline = Pipeline(
            generator or LocalGenerator(rollouts, self.agent, lead),
            weights=lambda: student_weights(self.model),
            jobs_of=self._jobs_of,
            seed_of=lambda number: int(np.random.default_rng([args.seed, number, _ACTIONS, *rank]).integers(2**31)),
        )
        self._idle = None if least_first_divergence is None or self._lessons.come_later else 0
        """Batches so far that taught nothing; None once one has, or where that is to be expected."""
        self._told = False
        """Was anything told about the current batch, in any process? Asked only while `_idle` counts."""
        self.add_callback(LeaveAlone(self))
        self.seconds = {"rollout": 0.0, "learn": 0.0}
        """Wall-clock so far, by what it went into."""

    def _set_signature_columns_if_needed(self) -> None:
        self._signature_columns = ["env_id", "seed"]

    def _setup_teacher_model(self) -> None:
        kind = self.args.teacher_model_kind
        self.teacher_model = self.model
        state = self.accelerator.state
        check_sharding(state.deepspeed_plugin, getattr(state, "fsdp_plugin", None))
        if kind == "ema":
            add_teacher(self.model)
            self.add_callback(
                FollowStudent(self.args.teacher_update_rate, self.args.teacher_sync_steps, lambda: self.learned)
            )
        elif kind not in _TEACHERS:
            raise ValueError(f"teacher_model_kind is one of {', '.join(_TEACHERS)}, not {kind!r}.")

    def _prepare_training_batch(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        start = time.perf_counter()
        # Everything random hangs on the seed and the step, so that a resumed run goes on as the unbroken one would.
        rank = self.accelerator.process_index
        rng = np.random.default_rng([self.args.seed, self.state.global_step, *([rank] if rank else [])])
        jobs = [Job(row["env_id"], row["seed"]) for row in inputs]
        self.policy.forget()  # the weights are others than in the last batch
        with whole(self.model):
            episodes = self.pipeline.batch(self.state.global_step, jobs, self.state.max_steps)
        results = episodes.results
        heard = self.count_failed(results)
        samples = samples_of(
            results, self.policy, self._lessons, self.state.global_step, teacher_sees=self._teacher_sees
        )
        if self._idle is not None:
            self._told = self.over_all(len(samples)) > 0
            if heard and not self._told:
                self._count_idle(_why_untold(results))
        pad_id = self._tokenizer.pad_token_id
        rows = choose(samples, self._max_rows, rng) or [idle(pad_id)]
        weighed = self.args.distillation_is_clip is not None
        if not self._under_grammar and not weighed:
            rows = [replace(row, grammar=None) for row in rows]
        batch: dict[str, Any] = collate(
            rows,
            self._tokenizer,
            vocabulary=self.model.get_output_embeddings().weight.shape[0],
            eos_token_ids=sorted(self.policy.eos_token_ids),
            pad_id=pad_id,
        )
        if not self._under_grammar and weighed:
            batch["drawn_under"] = batch["allowed"]
            batch["allowed"] = torch.ones_like(batch["allowed"])
        if not samples:
            batch["completion_mask"].zero_()
        learned = rows if samples else []
        self._batch = {
            **batch_figures(results, samples, learned),
            **self._lessons.take_counts(),
            **figures(episodes, self.state.global_step, [row.version for row in learned]),
        }
        self.note(self._batch)
        self.seconds["rollout"] += time.perf_counter() - start
        batch = {key: value.to(self.accelerator.device) for key, value in batch.items()}
        return {**batch, "seen": [row.seen for row in rows]} if self.policy.sees_images else batch

    def _count_idle(self, why: str) -> None:
        """Count the batches at a run's beginning that taught nothing.

        Raises:
            NothingToTeach: there are too many of them.
        """
        if self._idle is None:
            return
        self._idle += 1
        if self._idle == min(MOST_FAILED, self.state.max_steps):
            raise NothingToTeach(f"The first {self._idle} batches taught nothing. Of the last: {why}")

    def _jobs_of(self, number: int) -> list[Job]:
        """The episodes that the data loader gives this process in a later step; it goes through them in order."""
        size = self.args.per_device_train_batch_size
        start = size * (number * self.accelerator.num_processes + self.accelerator.process_index)
        rows = [self.train_dataset[index % len(self.train_dataset)] for index in range(start, start + size)]
        return [Job(row["env_id"], row["seed"]) for row in rows]

    def note(self, figures: Mapping[str, float]) -> None:
        """Put columns into the next line of metrics."""
        for name, figure in figures.items():
            self._metrics["train"][name].append(figure)

    def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """One forward and backward pass; the rollout that comes before it is timed apart."""
        start, rolled = time.perf_counter(), self.seconds["rollout"]
        loss = super().training_step(*args, **kwargs)
        rollout = self.seconds["rollout"] - rolled
        learn = time.perf_counter() - start - rollout
        self.seconds["learn"] += learn
        self.note({
            "tokens/generated_per_second": self._batch["tokens/generated"] / max(self._batch["rollouts/seconds"], 1e-9),
            "tokens/learned_per_second": self._batch["tokens/learned"] / max(learn, 1e-9),
            **memory_figures(),
        })  # fmt: skip
        return loss

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
        """TRL's loss, over the tokens at which there was a choice (`choices`)."""
        mask = inputs["completion_mask"]
        mask = mask * (torch.arange(mask.size(1), device=mask.device) >= self.num_loss_tokens_to_skip).long()
        inputs = at_tokens(inputs, *choices(mask, inputs["allowed"]))
        loss: torch.Tensor = super().compute_loss(model, inputs, *args, **kwargs)
        return loss

    def _compute_teacher_student_logits(self, model: Any, teacher_model: Any, inputs: Any) -> DistillationLogits:
        teacher_model = self.accelerator.unwrap_model(model)
        as_teacher = _TEACHERS[self.args.teacher_model_kind](teacher_model)
        seen: list[Seen] | None = inputs.get("seen")
        # The teacher goes first: switching adapters after the student's pass would touch its graph's leaves.
        with torch.no_grad(), as_teacher:
            teacher = self._logits(
                teacher_model, inputs["teacher_input_ids"], inputs["teacher_attention_mask"], inputs,
                extras=None if seen is None else [one.teacher for one in seen],
            )  # fmt: skip
        student = self._logits(
            model,
            torch.cat([inputs["prompt_ids"], inputs["tokens"]], dim=1),
            torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1),
            inputs,
            extras=None if seen is None else [one.student for one in seen],
        )
        forbidden = ~inputs["allowed"]
        return DistillationLogits(
            completion_ids=inputs["completion_ids"],
            loss_mask=inputs["weights"],
            student_logits=student.masked_fill_(forbidden, FORBIDDEN),
            teacher_logits=teacher.div_(self._teacher_temperature).masked_fill_(forbidden, FORBIDDEN),
        )

    def _logits(
        self,
        model: Any,
        ids: torch.Tensor,
        mask: torch.Tensor,
        inputs: dict[str, Any],
        extras: list[dict[str, torch.Tensor]] | None,
    ) -> torch.Tensor:
        """Return float32 logits of the tokens with a choice; `extras`: what is given besides tokens, for images."""
        at = inputs["columns"] + ids.size(1)
        if extras is not None:
            width = ids.size(1) - inputs["tokens"].size(1)
            more = model_inputs(self.accelerator.unwrap_model(model), ids, mask, extras, width)
            logits = plain_logits(model, ids, mask, at, **more)
        else:
            logits = (packed_logits if self._packable else plain_logits)(model, ids, mask, at)
        return logits.float().div_(self.temperature)

    def _compute_self_distillation_loss(self, model: Any, inputs: Any, distillation_logits: Any) -> torch.Tensor:
        logits: DistillationLogits = distillation_logits
        if "drawn_under" in inputs:
            old = as_if_over_all(
                logits.student_logits, logits.completion_ids, inputs["drawn_under"], inputs["old_per_token_logps"]
            )
            inputs = {**inputs, "old_per_token_logps": old}
        self._check_first_divergence(logits)
        mask, left_out = passed(
            self._gates, logits.teacher_logits, logits.student_logits, logits.loss_mask, inputs["right"],
            inputs["solved"], inputs["allowed"].sum(-1) > 1,
        )  # fmt: skip
        for name, count in left_out.items():
            self._metrics["train"][f"gate/{name}"].append(count)
        self.learned = self.over_all(bool(mask.any())) > 0
        if self.learned:
            self._idle = None
        elif self._told:
            self._count_idle(_why_left_out(left_out, any_before=bool(logits.loss_mask.any())))
        if not mask.any():
            # TRL would leave out a figure that the other processes wait for.
            self._log_self_distillation_metric("train", self.over_all(0.0))
            return logits.student_logits.sum() * 0.0
        # A row without a loss is taken out: TRL's mean over rows would count it as one that is learned.
        kept = mask.any(-1)
        logits = DistillationLogits(
            completion_ids=logits.completion_ids[kept],
            loss_mask=mask[kept],
            student_logits=logits.student_logits[kept],
            teacher_logits=logits.teacher_logits[kept],
        )
        inputs = {**inputs, "old_per_token_logps": inputs["old_per_token_logps"][kept]}
        if self._mean_over == "tokens":
            # TRL takes the mean of each row and then that of rows: here there is but one.
            logits = DistillationLogits(
                completion_ids=logits.completion_ids.reshape(1, -1),
                loss_mask=logits.loss_mask.reshape(1, -1),
                student_logits=logits.student_logits.flatten(0, 1)[None],
                teacher_logits=logits.teacher_logits.flatten(0, 1)[None],
            )
            inputs["old_per_token_logps"] = inputs["old_per_token_logps"].reshape(1, -1)
        if self.args.distillation_mode == "topk_logits":
            logits, inputs["old_per_token_logps"] = over_teachers_top(logits, inputs["old_per_token_logps"])
        return super()._compute_self_distillation_loss(model, inputs, logits)

    def _check_first_divergence(self, logits: DistillationLogits) -> None:
        """Record how far the teacher with demonstration is from the student, per token, before anything is learned.

        Raises:
            NothingToTeach: it is not.
        """
        least = self._least_first_divergence
        if least is None:
            return
        with torch.no_grad():
            # As it is: sharpened, even a teacher that knows nothing more differs from the student.
            teacher = torch.log_softmax(logits.teacher_logits * self._teacher_temperature, -1)
            student = torch.log_softmax(logits.student_logits, -1)
            divergence = (teacher.exp() * (teacher - student)).sum(-1)
            total = self.over_all(float((divergence * logits.loss_mask).sum()))
        tokens = self.over_all(float(logits.loss_mask.sum()))
        if tokens == 0:  # nothing was told about this batch
            return
        self._least_first_divergence = None
        mean = total / tokens
        self._metrics["train"]["step0_divergence"].append(mean)
        if least > 0 and mean < least:
            raise NothingToTeach(
                f"With its demonstration the teacher differs from the student by {mean:.2g} nats a token only (at "
                f"least {least:g} are wanted): there is nothing to learn. The demonstration is "
                "too weak, the student knows the tasks already, or, in a run that goes on from an adapter, an average "
                'of its weights (teacher="ema") does what it has learned before, whatever it is told: the untrained '
                'model (teacher="base") may not. least_first_divergence=0 trains all the same.'
            )
