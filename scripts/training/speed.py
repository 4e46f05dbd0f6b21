"""Measurement of learning steps against TRL's stock `SDFTTrainer`, on the same rows of real episodes."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selfsurf.scripts.report.turns import OURS, Workload
from selfsurf.scripts.terminal.console import progress

if TYPE_CHECKING:
    from trl.experimental.sdft import SDFTConfig

    from selfsurf.agents.policies.transformers.loading import Quantization
    from selfsurf.agents.policies.transformers.policy import TransformersPolicy
    from selfsurf.sdft.rollouts import Job
    from selfsurf.sdft.rows.samples import Sample
    from selfsurf.sdft.settings import TrainSettings

TASKS = (
    "click-button", "enter-text", "click-checkboxes", "login-user", "click-tab-2", "choose-list", "click-link",
    "focus-text-2", "click-option", "click-dialog-2",
)  # fmt: skip
"""Tasks that provide the rows: clicking, typing, choosing and logging in."""

TRL = "TRL SDFTTrainer"
TARGET = 2.0

STEPS = 3
"""Optimizer steps per contender and round."""


def measure(model: str, *, rows: int, rounds: int, quantization: Quantization | None = None) -> dict[str, Any]:
    """Play episodes, then train both trainers on the same rows in turns, and return the figures.

    A step ranges from the batch's tensors to the teacher's update: both forward passes, backward, clipping and
    optimizer. Both trainers start from the same weights and compute the divergence over the whole vocabulary. TRL's
    trainer is stock except for its generation, which returns the rows' completions.

    Args:
        model: Short name, hub id or folder.
        rows: Rows per batch.
        rounds: Number of rounds; an additional first round isn't counted.
        quantization: `nf4` to quantize the frozen weights, or None.
    """
    import torch

    from selfsurf.agents.policies.transformers.policy import TransformersPolicy

    policy = TransformersPolicy(model, quantization=quantization)
    samples = record(policy, rows)
    found: dict[str, Any] = {
        "model": policy.name, "dtype": str(policy.model.dtype), "device": str(policy.model.device),
        "threads": torch.get_num_threads(), "rows": len(samples), "tokens": _sizes(samples),
    }  # fmt: skip
    del policy
    work = Workload("step", targets={TRL: TARGET})
    with tempfile.TemporaryDirectory() as folder:
        contenders = {
            OURS: _ours(model, samples, Path(folder), quantization),
            TRL: _stock(model, samples, Path(folder), quantization),
        }
        first: dict[str, Any] = {}
        peak_gb: dict[str, float] = {}
        with progress("Rounds", rounds + 1) as update:
            for turn in range(rounds + 1):
                for name in list(contenders) if turn % 2 else list(contenders)[::-1]:
                    trainer, watch = contenders[name]
                    with _peak(peak_gb, name):
                        trainer.train()
                    if turn == 0:
                        first[name] = {key: trainer.state.log_history[0][key] for key in ("loss", "grad_norm")}
                        watch.steps.clear()
                    else:
                        work.add(name, [sum(step.values()) for step in watch.steps[-STEPS:]])
                update(turn + 1)
    watches = {name: watch for name, (_, watch) in contenders.items()}
    return {
        **found, "step": work.summary(), "first_step": first, "peak_gb": peak_gb,
        "phases": {name: watch.phases() for name, watch in watches.items()},
        "samples_per_second": {
            name: round(rows / statistics.median(map(sum, map(dict.values, watch.steps))), 3)
            for name, watch in watches.items()
        },
    }  # fmt: skip


def record(policy: TransformersPolicy, rows: int) -> list[Sample]:
    """Play episodes of `TASKS`, and return rows whose text encodes to the same tokens again."""
    import numpy as np

    import selfsurf  # noqa: F401  (registers the ids)
    from selfsurf.sdft.agent import make_agent
    from selfsurf.sdft.rollouts import Job, Rollouts
    from selfsurf.sdft.rows.samples import choose, samples_of

    def as_text(ids: list[int]) -> bool:
        return bool(policy.tokenizer.encode(policy.tokenizer.decode(ids)) == ids)

    settings = _settings(rows)
    agent = make_agent(policy, settings, sampling=True)
    samples: list[Sample] = []
    seed = 0
    with Rollouts(8, max_episode_steps=settings.max_episode_steps) as rollouts:
        while len(samples) < rows:
            results = rollouts.run(agent, [Job(task, seed) for task in settings.tasks[:rows]])
            found = samples_of(results, policy)
            kept = [one for one in found if as_text(one.prompt_ids) and as_text(one.teacher_prompt_ids)]
            if not kept:
                masked = [one.detail for one in results if one.masked]
                raise RuntimeError(
                    f"No rows could be made: {masked[0]}"
                    if masked
                    else "Every prompt changes when its tokens are decoded and encoded again: give another model."
                )
            samples += kept
            seed += 1
    return choose(samples, rows, np.random.default_rng(0))


def _settings(rows: int) -> TrainSettings:
    from selfsurf.sdft.settings import TrainSettings

    tasks = tuple(f"MiniWoB/{task}-v0" for task in TASKS)
    return TrainSettings(
        tasks=tasks, steps=STEPS, episodes_per_step=rows, max_rows=rows, least_first_divergence=0.0,
        teacher_temperature=1.0,  # TRL's trainer doesn't sharpen the teacher
    )  # fmt: skip


def _trl_arguments(settings: TrainSettings, folder: Path) -> SDFTConfig:
    """Return the settings as arguments of TRL's trainer."""
    from trl.experimental.sdft import SDFTConfig

    from selfsurf.sdft.trainers.base import on_one_gpu, shared_arguments

    arguments = on_one_gpu(SDFTConfig(
        **shared_arguments(settings, folder),
        per_device_train_batch_size=settings.episodes_per_step, shuffle_dataset=False, num_generations=1,
        temperature=settings.temperature, max_prompt_length=None, max_completion_length=settings.max_new_tokens,
        teacher_model_kind=settings.teacher_weights, teacher_update_rate=settings.teacher_rate, teacher_sync_steps=1,
        distillation_mode="full_logits", distillation_alpha=settings.divergence, num_loss_tokens_to_skip=0,
        disable_dropout=True, save_strategy="no",
    ))  # fmt: skip
    arguments.teacher_prompt_template = "{privileged_context}"  # the context is the teacher's whole prompt
    return arguments


def _sizes(samples: Sequence[Sample]) -> dict[str, Any]:
    """Return the mean number of tokens per row, and the number the model reads when padded and when packed."""
    from selfsurf.sdft.loss.logits import pack

    found: dict[str, Any] = {"completion": statistics.mean(len(sample.completion_ids) for sample in samples)}
    for name in ("prompt", "teacher_prompt"):
        rows = [getattr(sample, f"{name}_ids") + sample.completion_ids for sample in samples]
        lengths = [len(getattr(sample, f"{name}_ids")) for sample in samples]
        packed = pack(rows)
        found[name] = {
            "mean": round(statistics.mean(lengths), 1), "longest": max(lengths),
            "padded": round(max(lengths) + max(len(sample.completion_ids) for sample in samples), 1),
            "packed": round(len(packed.ids) / len(rows), 1),
        }  # fmt: skip
    return found


class _Watch:
    """A stopwatch for a trainer's phases, attached as a callback and around some of its methods."""

    def __init__(self) -> None:
        self.steps: list[dict[str, float]] = []
        """Seconds of each step by phase."""
        self._now: dict[str, float] = {}
        self._start = self._end = 0.0

    def around(self, owner: Any, method: str, phase: Callable[[], str]) -> None:
        """Count the time of a method as a phase, whose name is computed at each call."""
        call = getattr(owner, method)

        def timed(*args: Any, **kwargs: Any) -> Any:
            name, start = phase(), _clock()
            result = call(*args, **kwargs)
            self._end = _clock()
            self._now[name] = self._now.get(name, 0.0) + self._end - start
            return result

        setattr(owner, method, timed)

    def begin(self) -> None:
        """Begin a step."""
        self._now = {}
        self._start = _clock()

    def end(self) -> None:
        """End a step: the time after the backward pass is the optimizer's, and the unassigned rest the loss's."""
        now = _clock()
        self._now["optimizer"] = now - self._end
        self._now["loss"] = now - self._start - sum(self._now.values())
        self.steps.append(self._now)

    def phases(self) -> dict[str, float]:
        """Return the median milliseconds of each phase."""
        return {name: round(statistics.median(step[name] for step in self.steps) * 1000, 1) for name in self.steps[0]}


def _clock() -> float:
    """Return the time in seconds, after waiting for the GPU's pending work, if there is a GPU."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def _watched(trainer: Any, scoring: str) -> tuple[Any, _Watch]:
    """Attach a stopwatch to a trainer; `scoring` is its method that runs the model."""
    import torch
    from transformers import PrinterCallback, TrainerCallback

    class Steps(TrainerCallback):
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            watch.begin()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            watch.end()

    watch = _Watch()
    watch.around(trainer, "_prepare_training_batch", lambda: "batch")
    watch.around(trainer, scoring, lambda: "student" if torch.is_grad_enabled() else "teacher")
    watch.around(trainer.accelerator, "backward", lambda: "backward")
    trainer.add_callback(Steps)  # the last callback, so that the teacher's update is included
    trainer.remove_callback(PrinterCallback)
    return trainer, watch


@contextmanager
def _peak(found: dict[str, float], name: str) -> Iterator[None]:
    """Record the peak GPU memory allocated within this context, in GB beyond that allocated before."""
    import torch

    if not torch.cuda.is_available():
        yield
        return
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    yield
    found[name] = max(found.get(name, 0.0), round((torch.cuda.max_memory_allocated() - before) / 1e9, 2))


def _ours(model: str, samples: list[Sample], folder: Path, quantization: Quantization | None) -> tuple[Any, _Watch]:
    from transformers.trainer_utils import SaveStrategy

    from selfsurf.agents.policies.transformers.policy import TransformersPolicy
    from selfsurf.sdft.rollouts import Job, Rollouts
    from selfsurf.sdft.rows.samples import collate
    from selfsurf.sdft.run.model import lora_config
    from selfsurf.sdft.trainers.sdft import EpisodeSDFTTrainer

    class Ours(EpisodeSDFTTrainer):
        def _prepare_training_batch(self, jobs: list[Job]) -> dict[str, Any]:
            batch = collate(samples, self.pad_id)
            learned = sum(len(sample.completion_ids) for sample in samples)
            # For the step's metrics.
            self._batch = {"tokens/generated": 0.0, "tokens/learned": learned, "rollouts/seconds": 0.0}
            return {key: value.to(self.accelerator.device) for key, value in batch.items()}

    policy = TransformersPolicy(model, quantization=quantization)
    settings = _settings(len(samples))
    jobs = [Job(sample.env_id, 0) for sample in samples]
    trainer = Ours(
        settings, folder / "ours", model=policy.model, processing_class=policy.tokenizer, jobs=jobs,
        # rollouts are unused, because the rows are given
        peft_config=lora_config(policy.model, settings), rollouts=Rollouts(),
    )  # fmt: skip
    trainer.args.save_strategy = SaveStrategy.NO
    return _watched(trainer, "logits")


def _stock(model: str, samples: list[Sample], folder: Path, quantization: Quantization | None) -> tuple[Any, _Watch]:
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig
    from trl.experimental.sdft import SDFTTrainer

    from selfsurf.agents import model_files
    from selfsurf.agents.policies.transformers.loading import choose_device
    from selfsurf.sdft.run.model import lora_config

    class Stock(SDFTTrainer):
        def _generate(self, prompt_ids: list[list[int]]) -> tuple[list[list[int]], list[list[int]]]:
            if prompt_ids != [sample.prompt_ids for sample in samples]:
                raise RuntimeError("TRL's trainer asks for completions of other prompts than it was given.")
            return prompt_ids, [sample.completion_ids for sample in samples]

    source = model_files.resolve(model)
    options: dict[str, Any] = {"dtype": "auto"}
    if quantization is not None:
        options["quantization_config"] = BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type=quantization,
            bnb_4bit_compute_dtype=torch.bfloat16,
            bnb_4bit_use_double_quant=True,
        )
    held = AutoModelForCausalLM.from_pretrained(source, **options, device_map={"": choose_device("auto")})
    tokenizer = AutoTokenizer.from_pretrained(source)
    settings = _settings(len(samples))
    texts = {
        "prompt": [tokenizer.decode(sample.prompt_ids) for sample in samples],
        "privileged_context": [tokenizer.decode(sample.teacher_prompt_ids) for sample in samples],
    }
    trainer = Stock(
        model=held, processing_class=tokenizer, train_dataset=Dataset.from_dict(texts),
        args=_trl_arguments(settings, folder / "stock"), peft_config=lora_config(held, settings),
    )  # fmt: skip
    return _watched(trainer, "_forward_logits")
