"""The model that a run trains: its loading, the modules with adapters, and the adapter on disk."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selfsurf.agents.adapters.identity import check_base, write_about
from selfsurf.agents.policies.transformers.policy import TransformersPolicy
from selfsurf.sdft.run.card import card
from selfsurf.sdft.run.checkpoint_files import UNFINISHED, discard, publish, room_in
from selfsurf.sdft.settings import TrainSettings
from selfsurf.sdft.teacher.weights import STUDENT, adapter_state

if TYPE_CHECKING:
    from peft import LoraConfig


def load_policy(settings: TrainSettings) -> TransformersPolicy:
    """Load the model that a run trains, in its precision and on this process's device.

    4-bit weights stay in a format that supports gradients (`agents.policies.transformers.loading.keep_trainable`),
    because acting and training alternate here.

    Raises:
        agents.model_files.ModelError: the model can't be found or fetched.
        ImportError: quantization without bitsandbytes.
    """
    import torch

    local = os.environ.get("LOCAL_RANK")  # set by accelerate, which assigns the device only when the trainer is made
    device = f"cuda:{local}" if local and torch.cuda.is_available() else "auto"
    quantization = None if settings.quantization == "none" else settings.quantization
    return TransformersPolicy(settings.model, dtype=settings.dtype, device=device, quantization=quantization)


def lora_config(model: Any, settings: TrainSettings) -> LoraConfig:
    """Return the adapter's configuration for a model.

    Raises:
        ValueError: `lora_targets` contains a name that no linear layer has.
    """
    from peft import LoraConfig

    beside = None if settings.lora_vision else _beside_language(model)
    _check_targets(model, settings.lora_targets, beside)
    return LoraConfig(
        r=settings.lora_rank,
        lora_alpha=2 * settings.lora_rank,
        lora_dropout=0.0,
        target_modules=list(settings.lora_targets),
        exclude_modules=beside,
        task_type="CAUSAL_LM",
    )


def _beside_language(model: Any) -> str | None:
    """Return a pattern of the modules outside a vision-language model's language model, such as its vision tower.

    None for a text model.
    """
    names = {module: name for name, module in model.named_modules()}
    language = names.get(model.get_decoder(), "")
    if getattr(model.config, "vision_config", None) is None or not language:
        return None
    head = names.get(model.get_output_embeddings(), "lm_head")
    return rf"(?!{re.escape(language)}\.|{re.escape(head)}$).*"


def _check_targets(model: Any, targets: tuple[str, ...], beside: str | None) -> None:
    import torch
    from transformers.pytorch_utils import Conv1D

    linear = [
        name
        for name, module in model.named_modules()
        if isinstance(module, (torch.nn.Linear, Conv1D)) and not (beside and re.fullmatch(beside, name))
    ]
    unknown = [target for target in targets if not any(f".{name}".endswith(f".{target}") for name in linear)]
    if unknown:
        where = "the language model (lora_vision adds the other layers)" if beside else "the model"
        raise ValueError(
            f"lora_targets names {', '.join(unknown)}, but there is no such linear layer in {where}. Available are "
            f"{', '.join(sorted({name.rsplit('.', 1)[-1] for name in linear}))}."
        )


def save_adapter(model: Any, folder: Path, about: dict[str, Any]) -> Path:
    """Write the student's adapter in PEFT's format with `about` and a model card beside it, and return the folder.

    The write is atomic and replaces an earlier adapter.
    """
    made = folder.with_name(f"{folder.name}.{UNFINISHED}")
    discard(made)
    made.mkdir(parents=True)
    with room_in(made):
        peft = hasattr(model, "peft_config")  # an MLX model has only one adapter
        of_student = {"selected_adapters": [STUDENT], "state_dict": adapter_state(model)} if peft else {}
        model.save_pretrained(str(made), **of_student)
        (made / "README.md").write_text(card(about), encoding="utf8")  # replaces PEFT's unfilled template
        write_about(made, about)
    publish(made, folder)
    return folder


def trainable(policy: TransformersPolicy, adapter: Path) -> Any:
    """Return the policy's model with an adapter from disk as the student's, to be trained further.

    Raises:
        FileNotFoundError: the folder contains no adapter.
        agents.adapters.identity.WrongBase: the adapter belongs to another base model.
    """
    from peft import PeftModel

    check_base(adapter, policy.source, model=policy.model, name=policy.name)
    return PeftModel.from_pretrained(policy.model, str(adapter), adapter_name=STUDENT, is_trainable=True)


def student(policy: TransformersPolicy, settings: TrainSettings) -> dict[str, Any]:
    """Return the trainer's `model` and `peft_config`, with a new adapter or one from disk."""
    if settings.start_from is not None:
        return {"model": trainable(policy, settings.start_from), "peft_config": None}
    return {"model": policy.model, "peft_config": lora_config(policy.model, settings)}
