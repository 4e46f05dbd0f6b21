"""The adapter that a training leaves on disk: PEFT's format, with what is needed to reproduce and rightly use it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from agents.adapters.identity import check_base, write_about

if TYPE_CHECKING:
    from agents.policies.transformers import TransformersPolicy


def save_adapter(model: Any, folder: Path, about: dict[str, Any]) -> Path:
    """Write the student's adapter in PEFT's format with `about` beside it, and return the folder."""
    from sdft.teacher import STUDENT

    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(str(folder), selected_adapters=[STUDENT])
    write_about(folder, about)
    return folder


class Snapshots(TrainerCallback):
    """Keeps the adapter every so many optimizer steps, as `step-N` in a folder.

    Args:
        folder: where.
        every: steps between two of them.
        about: what is written beside each.
    """

    def __init__(self, folder: Path, every: int, about: dict[str, Any]) -> None:
        self.folder = folder
        self.every = every
        self.about = about

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Save one."""
        if state.global_step % self.every == 0:
            about = {**self.about, "steps": state.global_step}
            save_adapter(kwargs["model"], self.folder / f"step-{state.global_step}", about)


def trainable(policy: TransformersPolicy, adapter: Path) -> Any:
    """Return the policy's model with an adapter from disk as the student's, to be trained further.

    Raises:
        FileNotFoundError: the folder holds no adapter.
        agents.adapters.identity.WrongBase: the adapter belongs to another base model.
    """
    from peft import PeftModel

    from sdft.teacher import STUDENT

    check_base(adapter, policy.source, model=policy.model, name=policy.name)
    return PeftModel.from_pretrained(policy.model, str(adapter), adapter_name=STUDENT, is_trainable=True)
