"""The model that a run trains: how it is loaded, which modules get an adapter, and the adapter on disk."""

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

    4-bit weights are kept in the format that gradients can flow through
    (`agents.policies.transformers.loading.keep_trainable`): acting and training take turns here.

    Raises:
        agents.model_files.ModelError: the model can't be found or fetched.
        ImportError: quantization without bitsandbytes.
    """
    import torch

    local = os.environ.get("LOCAL_RANK")  # set by accelerate, which knows the device only once the trainer is made
    device = f"cuda:{local}" if local and torch.cuda.is_available() else "auto"
    quantization = None if settings.quantization == "none" else settings.quantization
    return TransformersPolicy(settings.model, dtype=settings.dtype, device=device, quantization=quantization)


def lora_config(model: Any, settings: TrainSettings) -> LoraConfig:
    """Return the adapter's configuration for a model.

    Raises:
        ValueError: `lora_targets` has a name that no linear layer has.
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
    """A pattern of the modules outside a vision-language model's language model, such as its vision tower.

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
        where = "its language model (lora_vision adds the others)" if beside else "the model"
        raise ValueError(
            f"lora_targets names {', '.join(unknown)}, but there is no such linear layer; those of {where} are "
            f"{', '.join(sorted({name.rsplit('.', 1)[-1] for name in linear}))}."
        )


def save_adapter(model: Any, folder: Path, about: dict[str, Any]) -> Path:
    """Write the student's adapter in PEFT's format with `about` and a model card beside it, and return the folder.

    A kill leaves no half of it. One that was there before is replaced.
    """
    made = folder.with_name(f"{folder.name}.{UNFINISHED}")
    discard(made)
    made.mkdir(parents=True)
    with room_in(made):
        peft = hasattr(model, "peft_config")  # with MLX a model has one adapter
        of_student = {"selected_adapters": [STUDENT], "state_dict": adapter_state(model)} if peft else {}
        model.save_pretrained(str(made), **of_student)
        (made / "README.md").write_text(card(about), encoding="utf8")  # instead of PEFT's, a form that is not filled in
        write_about(made, about)
    publish(made, folder)
    return folder


def trainable(policy: TransformersPolicy, adapter: Path) -> Any:
    """Return the policy's model with an adapter from disk as the student's, to be trained further.

    Raises:
        FileNotFoundError: the folder holds no adapter.
        agents.adapters.identity.WrongBase: the adapter belongs to another base model.
    """
    from peft import PeftModel

    check_base(adapter, policy.source, model=policy.model, name=policy.name)
    return PeftModel.from_pretrained(policy.model, str(adapter), adapter_name=STUDENT, is_trainable=True)


def student(policy: TransformersPolicy, settings: TrainSettings) -> dict[str, Any]:
    """Return what a trainer is given to train: `model` and `peft_config`, a new adapter or one from disk."""
    if settings.start_from is not None:
        return {"model": trainable(policy, settings.start_from), "peft_config": None}
    return {"model": policy.model, "peft_config": lora_config(policy.model, settings)}
