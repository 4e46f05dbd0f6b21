"""The teacher's weights: a second LoRA adapter that follows the student's as an exponential moving average."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

if TYPE_CHECKING:
    import torch

STUDENT = "default"
TEACHER = "teacher"


def add_teacher(model: Any) -> None:
    """Attach the teacher's adapter as a copy of the student's, unless a resumed run has brought one.

    TRL's teacher starts from zero in A as well as B, so that its A lags behind by the share (1 - rate)^n forever; a
    copy computes the same function at the start and follows from there.
    """
    if TEACHER not in model.peft_config:
        model.add_adapter(TEACHER, model.peft_config[STUDENT])
        move_teacher(model, 1.0)
    activate(model, STUDENT)


def move_teacher(model: Any, rate: float) -> None:
    """Move the teacher's weights towards the student's: `teacher = (1 - rate) * teacher + rate * student`."""
    import torch

    with torch.no_grad():
        for student, teacher in pairs(model):
            teacher.lerp_(student.to(teacher.dtype), rate)


def pairs(model: Any) -> Iterator[tuple[torch.nn.Parameter, torch.nn.Parameter]]:
    """Yield the student's adapter parameters with the teacher's counterparts."""
    parameters = dict(model.named_parameters())
    for name, student in parameters.items():
        if f".{STUDENT}." in name and "lora_" in name:
            yield student, parameters[name.replace(f".{STUDENT}.", f".{TEACHER}.")]


def adapter_state(model: Any) -> dict[str, torch.Tensor]:
    """Return the tensors of a model's adapters, as input of PEFT's state dict functions.

    `model.state_dict()` would shard them over FSDP 2's processes again, inside `sdft.processes.unsharded`.
    """
    return {name: one.detach() for name, one in model.named_parameters() if "lora_" in name}


def student_weights(model: Any) -> dict[str, torch.Tensor]:
    """Return the tensors of the student's adapter by PEFT's names, copied to CPU memory."""
    from peft import get_peft_model_state_dict

    tensors = get_peft_model_state_dict(model, state_dict=adapter_state(model), adapter_name=STUDENT)
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}


def activate(model: Any, adapter: str) -> None:
    """Activate an adapter. Only the student's adapter is ever trainable."""
    model.set_adapter(adapter)
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            parameter.requires_grad_(f".{STUDENT}." in name)


@contextlib.contextmanager
def teaching(model: Any) -> Iterator[None]:
    """Make the model the teacher within this context."""
    activate(model, TEACHER)
    try:
        yield
    finally:
        activate(model, STUDENT)


class FollowStudent(TrainerCallback):
    """Callback that moves the teacher towards the student after every optimizer step.

    Args:
        rate: as in `move_teacher`.
        learned: returns whether the student learned anything in this step; if not, the teacher stays unchanged.
    """

    def __init__(self, rate: float, learned: Callable[[], bool] = lambda: True) -> None:
        self.rate = rate
        self.learned = learned

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Move the teacher, unless the step taught nothing."""
        if self.learned():
            move_teacher(kwargs["model"], self.rate)
