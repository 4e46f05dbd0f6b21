"""Runs one SDFT training: model, environments, trainer, checkpoints, adapter."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import torch
from datasets import Dataset
from transformers import PrinterCallback
from trl.experimental.sdft import SDFTConfig

from agents.adapters.identity import identity
from agents.policies.transformers import TransformersPolicy
from sdft.acting import make_agent as make_agent
from sdft.adapter import save_adapter, student
from sdft.callbacks import Clock, keepers
from sdft.checkpoint_files import checkpoint
from sdft.checkpoints import CheckpointManager
from sdft.contexts.lessons import make_lessons
from sdft.contexts.recording import load_recordings
from sdft.gates import Gates
from sdft.generating import generating
from sdft.heldout import check_heldout
from sdft.images import shows_images
from sdft.loading import load_policy
from sdft.metrics import MetricsLog, Progress, check_reporters, reporting
from sdft.practice import practice_of
from sdft.processes import check_alone, is_first, share, whole
from sdft.rehearsal import rehearsal_of
from sdft.rollouts import Job, Rollouts
from sdft.running import go_on, going_on_from, keep_recordings, settle, summary_of
from sdft.settings import TrainSettings
from sdft.trainer import EpisodeSDFTTrainer

_MODES: dict[str, Literal["full_logits", "topk_logits", "sampled_token"]] = {
    "vocabulary": "full_logits", "top": "topk_logits", "sampled": "sampled_token",
}  # fmt: skip
"""TRL's words for `TrainSettings.support`."""


def training_jobs(settings: TrainSettings) -> list[Job]:
    """Return the episodes of a run in order: every batch goes through the tasks, or the demonstrations, in turn."""
    count = settings.steps * settings.episodes_per_step
    tasks = settings.tasks
    if not tasks:
        shown = [Job(recording.env_id, recording.seed) for recording in load_recordings(settings.demonstrations)]
        return [shown[i % len(shown)] for i in range(count)]
    return [Job(tasks[i % len(tasks)], settings.first_episode_seed + i // len(tasks)) for i in range(count)]


def train(
    settings: TrainSettings,
    out: str | Path,
    *,
    policy: TransformersPolicy | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Train an adapter.

    Args:
        settings: what to do.
        out: `adapter/` (PEFT, with `selfsurf.json`), `checkpoints/` and `metrics.jsonl` go here.
        policy: a loaded model to train, or None to load `settings.model`. Its model is wrapped by PEFT in place.
        resume: go on from the last checkpoint in `out`, if there is one.
        progress: called after every optimizer step with its number and metrics.

    Returns:
        The summary that is also saved beside the adapter, with `adapter` as the folder's path.

    Raises:
        ValueError: `out` holds another run's adapter and `resume` is off, or the run there has other settings; a
            package of `report_to` is missing; nobody can teach one of the tasks; `evaluate_every` asks for success
            where nobody judges, or on episodes that are trained on.
    """
    folder = Path(out)
    checkpoints = folder / "checkpoints"
    last = going_on_from(folder, resume=resume)
    check_reporters(settings.report_to)
    for name in ("evaluate_every", "minutes", "enrich"):
        if getattr(settings, name):
            check_alone(name)
    if "hindsight" in settings.contexts:
        check_alone('the context "hindsight"')
    jobs = training_jobs(settings)
    check_heldout(settings, jobs)
    lessons = make_lessons(settings, folder, batch=last or 0)
    settle(settings, folder, begun=last is not None)
    keep_recordings(settings, folder, begun=last is not None)
    policy = policy or load_policy(settings)
    base = identity(policy.name, policy.source, policy.model)
    dataset = Dataset.from_dict({"env_id": [job.env_id for job in jobs], "seed": [job.seed for job in jobs]})
    log = MetricsLog(folder / "metrics.jsonl", progress, resumed_at=last)
    clock = Clock(log, settings.minutes)
    environment = {
        "max_episode_steps": settings.max_episode_steps,
        "screenshot": shows_images(policy, settings),
    }
    rehearsal = rehearsal_of(settings, policy, folder, begun=last is not None)
    learner = student(policy, settings)
    practice = practice_of(settings, policy, learner["model"], folder, begun=last is not None)
    with (
        reporting(settings.report_to, folder / "logs"),
        Rollouts(settings.episodes_per_step, most=settings.rollout_batch, **environment) as rollouts,
        generating(settings, policy, learner, environment) as generator,
    ):
        trainer = EpisodeSDFTTrainer(
            generator=generator,
            agent_of=lambda policy: make_agent(policy, settings, sampling=True),
            rollouts=rollouts,
            max_rows=share(settings.max_rows, "max_rows"),
            lead=settings.lead,
            lessons=lessons,
            mean_over=settings.mean_over,
            under_grammar=settings.under_grammar,
            teacher_sees=settings.teacher_sees,
            teacher_temperature=settings.teacher_temperature,
            gates=Gates(settings.skip_right, settings.min_divergence, settings.min_confidence),
            least_first_divergence=None if last else settings.least_first_divergence,
            **learner,
            processing_class=policy.tokenizer if policy.processor is None else policy.processor,
            args=_arguments(settings, checkpoints),
            train_dataset=dataset,
            callbacks=[clock, log, *keepers(settings, folder, base)],
        )
        trainer.rehearsal, trainer.practice = rehearsal, practice
        trainer.remove_callback(PrinterCallback)
        trainer.seconds.update(log.seconds)
        log.seconds = trainer.seconds
        manager = None
        if settings.evaluate_every:
            agent = make_agent(trainer.policy, settings, sampling=False)
            manager = CheckpointManager(trainer, agent, rollouts, settings, log, resumed_at=last)
            trainer.add_callback(manager)
        if manager is None or not manager.stopped:
            go_on(trainer, clock, None if last is None else checkpoint(checkpoints, last))
        if manager is not None:
            manager.restore_best()
    summary = summary_of(settings, base, trainer, clock, log, last)
    if manager is not None:
        summary["evaluation"] = manager.summary()
    with whole(trainer.model):
        if is_first():
            save_adapter(trainer.model, folder / "adapter", summary)
    trainer.accelerator.wait_for_everyone()
    return {**summary, "adapter": str(folder / "adapter"), "model": trainer.model}


def _arguments(settings: TrainSettings, checkpoints: Path) -> SDFTConfig:
    return SDFTConfig(
        **shared_arguments(settings, checkpoints),
        per_device_train_batch_size=share(settings.episodes_per_step, "episodes_per_step"),
        shuffle_dataset=False,
        temperature=settings.temperature,
        max_prompt_length=None,
        max_completion_length=settings.max_new_tokens,
        num_generations=1,
        teacher_model_kind=settings.teacher_weights,
        teacher_update_rate=settings.teacher_rate,
        teacher_sync_steps=1,
        distillation_mode=_MODES[settings.support],
        distillation_topk=settings.top_k,
        distillation_add_tail=True,
        distillation_alpha=settings.divergence,
        distillation_is_clip=settings.importance_clip,
        num_loss_tokens_to_skip=settings.skip_tokens,
        disable_dropout=True,
    )


def shared_arguments(settings: TrainSettings, checkpoints: Path) -> dict[str, Any]:
    """Return the trainer arguments that are the same for every way to train."""
    return dict(  # noqa: C408  (the same form as the arguments above)
        output_dir=str(checkpoints),
        max_steps=settings.steps,
        gradient_accumulation_steps=1,
        learning_rate=settings.learning_rate,
        warmup_steps=min(settings.warmup_steps, settings.steps // 4),
        lr_scheduler_type="linear",
        max_grad_norm=settings.max_grad_norm,
        weight_decay=0.0,
        seed=settings.seed,
        activation_checkpointing=settings.gradient_checkpointing,
        activation_checkpointing_kwargs={"use_reentrant": False},
        bf16=False,
        use_cpu=not torch.cuda.is_available() and not torch.backends.mps.is_available(),
        logging_steps=1,
        logging_nan_inf_filter=False,
        save_steps=settings.checkpoint_every,
        save_total_limit=2,
        report_to=list(settings.report_to),
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
