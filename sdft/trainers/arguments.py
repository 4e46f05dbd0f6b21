"""Settings of a run as the arguments of TRL's trainers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import torch
from trl.experimental.sdft import SDFTConfig

from selfsurf.sdft.run.processes import share
from selfsurf.sdft.settings import TrainSettings

_MODES: dict[str, Literal["full_logits", "topk_logits", "sampled_token"]] = {
    "vocabulary": "full_logits", "top": "topk_logits", "sampled": "sampled_token",
}  # fmt: skip
"""TRL's words for `TrainSettings.support`."""


def sdft_arguments(settings: TrainSettings, checkpoints: Path) -> SDFTConfig:
    """Return the arguments of SDFT's trainer."""
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
        teacher_sync_steps=settings.teacher_every,
        distillation_mode=_MODES[settings.support],
        distillation_topk=settings.top_k,
        distillation_add_tail=True,
        # Over the teacher's likeliest tokens both are exchanged (`sdft.loss.scoring.over_teachers_top`).
        distillation_alpha=1 - settings.divergence if settings.support == "top" else settings.divergence,
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
