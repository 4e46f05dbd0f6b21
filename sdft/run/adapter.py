"""The adapter that a training leaves on disk: PEFT's format, with what is needed to reproduce and rightly use it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from selfsurf.agents.adapters.identity import check_base, write_about
from selfsurf.sdft.run.checkpoint_files import UNFINISHED, discard, publish, room_in
from selfsurf.sdft.run.loading import lora_config

if TYPE_CHECKING:
    from selfsurf.agents.policies.transformers.policy import TransformersPolicy
    from selfsurf.sdft.settings import TrainSettings


def save_adapter(model: Any, folder: Path, about: dict[str, Any]) -> Path:
    """Write the student's adapter in PEFT's format with `about` beside it, and return the folder.

    A kill leaves no half of it. One that was there before is replaced.
    """
    from selfsurf.sdft.teacher.weights import STUDENT

    made = folder.with_name(f"{folder.name}.{UNFINISHED}")
    discard(made)
    made.mkdir(parents=True)
    with room_in(made):
        model.save_pretrained(str(made), selected_adapters=[STUDENT])
        (made / "README.md").unlink(missing_ok=True)  # PEFT's form of a model card, not filled in
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

    from selfsurf.sdft.teacher.weights import STUDENT

    check_base(adapter, policy.source, model=policy.model, name=policy.name)
    return PeftModel.from_pretrained(policy.model, str(adapter), adapter_name=STUDENT, is_trainable=True)


def student(policy: TransformersPolicy, settings: TrainSettings) -> dict[str, Any]:
    """Return what a trainer is given to train: `model` and `peft_config`, a new adapter or one from disk."""
    if settings.start_from is not None:
        return {"model": trainable(policy, settings.start_from), "peft_config": None}
    return {"model": policy.model, "peft_config": lora_config(policy.model, settings)}
