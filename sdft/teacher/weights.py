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
    """Attach the teacher's adapter as a copy of the student's, unless it is there (a resumed run brings its own).

    TRL starts its own from zero for A as well as B, so that its A lags behind by the share (1 - rate)^n for ever;
    a copy is the same function at the start and follows from there.
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
    """Return the tensors of a model's adapters, for PEFT to choose from.

    `model.state_dict()` would split them over FSDP 2's processes again, where `sdft.run.processes.whole` holds.
    """
    return {name: one.detach() for name, one in model.named_parameters() if "lora_" in name}


def student_weights(model: Any) -> dict[str, torch.Tensor]:
    """Return the tensors of the student's adapter by PEFT's names, copied to the processor's memory."""
    from peft import get_peft_model_state_dict

    tensors = get_peft_model_state_dict(model, state_dict=adapter_state(model), adapter_name=STUDENT)
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}


def activate(model: Any, adapter: str) -> None:
    """Activate an adapter; only the student's is ever trained."""
    model.set_adapter(adapter)
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            parameter.requires_grad_(f".{STUDENT}." in name)


@contextlib.contextmanager
def teaching(model: Any) -> Iterator[None]:
    """Within this context the model is the teacher."""
    activate(model, TEACHER)
    try:
        yield
    finally:
        activate(model, STUDENT)


class FollowStudent(TrainerCallback):
    """Moves the teacher after every optimizer step.

    Args:
        rate: as in `move_teacher`.
        learned: did the student learn anything in this step? If not, the teacher stays where it is.
    """

    def __init__(self, rate: float, learned: Callable[[], bool] = lambda: True) -> None:
        self.rate = rate
        self.learned = learned

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Move the teacher."""
        if self.learned():
            move_teacher(kwargs["model"], self.rate)
