"""Base classes and arguments shared by the trainers of SDFT, SFT and GRPO."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from transformers import PrinterCallback, TrainerCallback, TrainingArguments, set_seed
from trl.experimental.utils import prepare_peft_model

from selfsurf import threads
from selfsurf.agents.policies.transformers.policy import TransformersPolicy
from selfsurf.sdft.agent import make_agent
from selfsurf.sdft.forgetting.practice import Practice
from selfsurf.sdft.forgetting.rehearsal import Rehearsal
from selfsurf.sdft.loss.logits import make_ready
from selfsurf.sdft.loss.scoring import completion_logits
from selfsurf.sdft.processes import check_sharding, share
from selfsurf.sdft.rollouts import Generator, Job, LocalGenerator, Result, Rollouts
from selfsurf.sdft.rollouts.collector import Collector
from selfsurf.sdft.rollouts.models import reuse
from selfsurf.sdft.rows.images import model_inputs
from selfsurf.sdft.rows.samples import Sample, allowed_tokens, collate, idle, learnable
from selfsurf.sdft.rows.stored import State
from selfsurf.sdft.rows.stored_states import StoredGenerator
from selfsurf.sdft.run.atomic_checkpoints import AtomicCheckpoints
from selfsurf.sdft.run.batches import Failures
from selfsurf.sdft.settings import TrainSettings
from selfsurf.sdft.teacher.weights import student_weights

_log = logging.getLogger(__name__)

Arguments = TypeVar("Arguments", bound=TrainingArguments)


class RunTrainer(AtomicCheckpoints):
    """Base trainer of a run, with fast LoRA layers, protection from forgetting, and batches that may teach nothing.

    Args:
        settings: settings of the run.
        checkpoints: folder of the checkpoints.
        model: a PEFT model, or with `peft_config` the model that becomes one.
        processing_class: the model's tokenizer, or its processor if the model takes images.
        items: elements of the batches, in order.
        peft_config: configuration of the adapter.
        callbacks: callbacks of transformers' trainer.
        arguments: arguments of transformers' trainer beyond those derived from the settings.
    """

    rehearsal: Rehearsal | None = None
    practice: Practice | None = None
    learned = True
    """Whether the current batch teaches anything in any process. If not, `SkipEmptyUpdates` keeps the weights."""
    temperature = 1.0
    """Temperature by which logits are divided."""

    def __init__(
        self,
        settings: TrainSettings,
        checkpoints: Path,
        items: Sequence[Any],
        *,
        model: Any,
        processing_class: Any,
        peft_config: Any = None,
        callbacks: list[TrainerCallback] | None = None,
        **arguments: Any,
    ) -> None:
        threads.share_cores()
        args = on_one_gpu(
            TrainingArguments(**shared_arguments(settings, checkpoints), remove_unused_columns=False, **arguments)
        )
        self.settings = settings
        self.seconds = {"learn": 0.0}
        """Wall-clock seconds so far, by activity."""
        self._metrics: dict[str, list[float]] = defaultdict(list)
        self._failures = Failures(settings.steps)
        tokenizer = getattr(processing_class, "tokenizer", processing_class)
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
        self.pad_id: int = tokenizer.pad_token_id
        set_seed(settings.seed)  # makes the new adapter's random weights reproducible
        model = prepare_peft_model(model, peft_config, args)
        keep_precision(model)
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0
        super().__init__(
            model=model, args=args, data_collator=list, train_dataset=list(items), processing_class=processing_class,
            callbacks=callbacks,
        )  # fmt: skip
        state = self.accelerator.state
        check_sharding(state.deepspeed_plugin, getattr(state, "fsdp_plugin", None))
        self.packable = make_ready(self.model)
        self.add_callback(SkipEmptyUpdates(self))
        self.remove_callback(PrinterCallback)

    def note(self, figures: Mapping[str, float]) -> None:
        """Add columns to the next line of metrics."""
        for name, figure in figures.items():
            self._metrics[name].append(figure)

    def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Run one forward and backward pass. The preceding rollout is timed separately."""
        start, rolled = time.perf_counter(), self.seconds.get("rollout", 0.0)
        loss: torch.Tensor = super().training_step(*args, **kwargs)
        if loss.device.type == "cuda":
            torch.cuda.synchronize(loss.device)  # otherwise the end of the backward pass is timed elsewhere
        rollout = self.seconds.get("rollout", 0.0) - rolled
        self.seconds["learn"] += time.perf_counter() - start - rollout
        return loss

    def forgetting(self, model: Any) -> torch.Tensor | float:
        """Return the weighted divergences from the untrained model and from the adapter of an earlier run."""
        total: torch.Tensor | float = 0.0
        for name, kept in {"rehearsal": self.rehearsal, "practice": self.practice}.items():
            if kept is not None:
                forgotten = kept.divergence(self.accelerator.unwrap_model(model), self.state.global_step)
                self.note({f"{name}/divergence": float(forgotten.detach())})
                total = total + kept.weight * forgotten
        return total

    def over_all(self, number: float) -> float:
        """Return the mean of a number over all processes. Every process has to call this."""
        return float(self.accelerator.gather(torch.tensor(float(number), device=self.accelerator.device)).mean())

    def count_failed(self, results: Sequence[Result]) -> bool:
        """Count consecutive batches without a usable episode; return whether this batch is usable.

        Raises:
            RolloutError: the environment failed in every episode of too many batches in a row.
        """
        usable = self.over_all(sum(map(learnable, results))) > 0
        self._failures.count(results, usable=usable)
        return usable

    def logits(
        self, model: Any, ids: torch.Tensor, attended: torch.Tensor, mask: torch.Tensor, extras: Any = None
    ) -> torch.Tensor:
        """Return the float32 logits (B, C, V) that predict the completions' tokens, at the training temperature.

        Arguments are those of `sdft.loss.scoring.completion_logits`; `extras` holds the image inputs of each row
        (`sdft.rows.images`).
        """
        seen = {}
        if extras:
            held, width = self.accelerator.unwrap_model(model), ids.size(1) - mask.size(1)
            seen = model_inputs(held, ids, attended, extras, width)
        return completion_logits(model, ids, attended, mask, packable=self.packable, **seen).div_(self.temperature)

    def student_logits(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        """Return the student's logits at the tokens that it sampled."""
        seen, mask = inputs.get("seen"), inputs["completion_mask"]
        ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
        attended = torch.cat([inputs["prompt_mask"], mask], dim=1)
        return self.logits(model, ids, attended, mask, seen and [one.student for one in seen])

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """Log the given figures with the mean of each figure noted since the last call."""
        noted = self._metrics
        super().log({**logs, **{name: sum(values) / len(values) for name, values in noted.items()}}, *args, **kwargs)
        noted.clear()


class EpisodeTrainer(RunTrainer):
    """Base trainer on the student's own episodes, played anew for each optimizer step (`_prepare_training_batch`).

    Args:
        settings: settings of the run.
        checkpoints: folder of the checkpoints.
        jobs: episodes of the run, in order.
        rollouts: environments of the episodes; None if the generator has its own, and offline.
        states: recorded states at which the student acts offline instead of playing; the jobs name them.
        generator: generator of the episodes; by default in this process, in `rollouts`. A generator that works ahead is
            asked for the next batch before the current batch is learned from.
        processing_class: the model's tokenizer, or its processor if the model takes images.
        options: further arguments of `RunTrainer`.
    """

    def __init__(
        self,
        settings: TrainSettings,
        checkpoints: Path,
        *,
        jobs: Sequence[Job],
        rollouts: Rollouts | None = None,
        states: Sequence[State] = (),
        generator: Generator | None = None,
        processing_class: Any,
        **options: Any,
    ) -> None:
        batch = share(settings.episodes_per_step, "episodes_per_step")
        super().__init__(
            settings, checkpoints, jobs, processing_class=processing_class, per_device_train_batch_size=batch,
            train_sampling_strategy="sequential", **options,
        )  # fmt: skip
        self.jobs = list(jobs)
        self.max_rows = share(settings.max_rows, "max_rows")
        self.temperature = settings.temperature
        self.policy = TransformersPolicy(self.model, processing_class, reuse=reuse(settings.rollouts.batch))
        self.agent = make_agent(self.policy, settings, sampling=True, guarded=settings.offline)
        if generator is None and rollouts is None:
            generator = StoredGenerator(self.agent, states, settings.rollouts.batch)
        self.collector = Collector(
            generator or LocalGenerator(cast(Rollouts, rollouts), self.agent, settings.lead),
            self.policy,
            lambda: student_weights(self.model),
        )
        self.seconds["rollout"] = 0.0

    def _prepare_inputs(self, inputs: list[Job]) -> dict[str, Any]:  # type: ignore[override]
        start = time.perf_counter()
        self.policy.forget()  # the weights have changed since the last batch
        batch = self._prepare_training_batch(inputs)
        self.seconds["rollout"] += time.perf_counter() - start
        return batch

    def _prepare_training_batch(self, jobs: list[Job]) -> dict[str, Any]:
        """Play the episodes and make rows of their steps."""
        raise NotImplementedError

    def collate(self, rows: Sequence[Sample], *, allowed: bool) -> dict[str, Any]:
        """Return a batch of rows; without rows, a masked batch for a process that has nothing to learn.

        Args:
            rows: rows to learn from.
            allowed: whether to add `allowed`, the tokens that the grammar allowed during sampling.
        """
        padded = rows or [idle(self.pad_id)]
        batch = collate(padded, self.pad_id)
        if allowed:
            batch["allowed"] = allowed_tokens(padded, self.policy)
        if not rows:
            batch["completion_mask"].zero_()
        batch = {key: value.to(self.accelerator.device) for key, value in batch.items()}
        return {**batch, "seen": [row.seen for row in padded]} if self.policy.sees_images else batch


class SkipEmptyUpdates(TrainerCallback):
    """Callback that keeps the weights unchanged if a batch taught nothing.

    Zero gradients would not be enough: Adam would still move the weights by its momentum.

    Args:
        trainer: the trainer whose `learned` is checked.
    """

    def __init__(self, trainer: RunTrainer) -> None:
        self._trainer = trainer

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Remove the gradients, so that the optimizer skips all weights."""
        if not self._trainer.learned:
            for parameter in kwargs["model"].parameters():
                parameter.grad = None


def keep_precision(model: Any) -> None:
    """Undo PEFT's and TRL's precision changes in models with 4-bit weights. Other models are unchanged.

    Norms, embeddings and head in float32 would make all activations float32: samples would differ from a worker's, and
    attention would lose its fused kernel on a GPU. An adapter in bfloat16 would round its updates away.
    """
    if not getattr(model, "is_loaded_in_4bit", False):
        return
    computed = model.config.quantization_config.bnb_4bit_compute_dtype
    for name, one in model.named_parameters():
        if one.is_floating_point():
            one.data = one.data.to(torch.float32 if "lora_" in name else computed)


def on_one_gpu(arguments: Arguments) -> Arguments:
    """Limit a process to one GPU if several are visible.

    Transformers would enlarge its batches and pass them to torch's `DataParallel`, which splits every tensor along its
    first dimension, even packed rows. `accelerate launch` starts a process for each GPU.

    Args:
        arguments: arguments of transformers' trainer.
    """
    assert arguments.device  # reading `device` detects the GPUs
    if (count := arguments.n_gpu) > 1:
        _log.info(
            "This process trains on one of %d GPUs. To use all of them, see docs/training.md#several-gpus.", count
        )
        arguments._n_gpu = 1
    return arguments


def shared_arguments(settings: TrainSettings, checkpoints: Path) -> dict[str, Any]:
    """Return the arguments of transformers' trainer that SDFT, SFT and GRPO share, from the settings of a run."""
    return {
        "output_dir": str(checkpoints),
        "max_steps": settings.steps,
        "learning_rate": settings.learning_rate,
        "warmup_steps": min(settings.warmup_steps, settings.steps // 4),
        "max_grad_norm": settings.max_grad_norm,
        "seed": settings.seed,
        "activation_checkpointing": settings.gradient_checkpointing,
        "activation_checkpointing_kwargs": {"use_reentrant": False},
        "bf16": False,
        "use_cpu": not torch.cuda.is_available() and not torch.backends.mps.is_available(),
        "logging_steps": 1,
        "logging_nan_inf_filter": False,
        "save_steps": settings.checkpoint_every,
        "save_total_limit": 2,
        "report_to": list(settings.report_to),
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
    }
