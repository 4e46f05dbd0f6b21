"""Image inputs of a vision-language model, for the student's and the teacher's prompt of a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from selfsurf.agents.policies.local.policy import LocalPolicy
from selfsurf.agents.policies.local.prompts import Prompt
from selfsurf.agents.policies.transformers.images import PER_TOKEN, merge, positions
from selfsurf.agents.policy import Completion, Conversation

if TYPE_CHECKING:
    import torch

    from selfsurf.sdft.settings import TrainSettings


@dataclass(frozen=True)
class VisualInputs:
    """The non-token inputs of a row's prompts: `pixel_values`, `image_grid_thw`, `token_type_ids` and the like.

    Both are empty for a row without images.
    """

    student: dict[str, torch.Tensor] = field(default_factory=dict)
    teacher: dict[str, torch.Tensor] = field(default_factory=dict)
    """Inputs of the teacher's prompt. Image tensors are shared with the student's where they are equal."""


def shows_images(policy: LocalPolicy, settings: TrainSettings) -> bool:
    """Whether the model takes images and the settings show it any."""
    return policy.sees_images and settings.vision != "none"


def seen_of(policy: LocalPolicy, messages: Conversation, completion: Completion, taught: Prompt) -> VisualInputs:
    """Recreate a row's image inputs from its messages.

    Args:
        policy: policy of the student, a vision model.
        messages: messages in the student's prompt.
        completion: the student's reply.
        taught: the teacher's prompt.

    Raises:
        ValueError: the messages give another prompt than the one that was sampled from.
    """
    import torch

    prompt = policy.prompt(messages)
    if prompt.ids + completion.prefill_token_ids != completion.prompt_token_ids:
        raise ValueError(
            f"{policy.name} now tokenizes a prompt of the samples differently: "
            f"{len(prompt.ids) + len(completion.prefill_token_ids)} tokens, {len(completion.prompt_token_ids)} before. "
            "Sample and train with the same processor and image size."
        )
    own = prompt.extras
    same = {key for key, tensor in taught.extras.items() if key in own and torch.equal(own[key], tensor)}
    return VisualInputs(own, {key: own[key] if key in same else tensor for key, tensor in taught.extras.items()})


def model_inputs(
    model: Any, ids: torch.Tensor, mask: torch.Tensor, extras: Sequence[dict[str, torch.Tensor]], width: int
) -> dict[str, torch.Tensor]:
    """Return a vision-language model's inputs besides tokens and mask, for rows of prompts and completions.

    Positions are given explicitly, as in sampling: a model that computes them itself caches some for later calls.
    Completions are text, so their part of the per-token inputs is 0.

    Args:
        model: the model, wrapped by PEFT or not.
        ids: (B, P + C), prompts padded on the left, completions on the right.
        mask: (B, P + C), 1 for tokens.
        extras: prompt inputs of each row (`VisualInputs.student` or `VisualInputs.teacher`).
        width: P.
    """
    import torch

    inputs = merge(extras, mask[:, :width].sum(-1).tolist(), width, model.config.model_type)
    for key, tensor in inputs.items():
        longer = torch.nn.functional.pad(tensor, (0, ids.shape[1] - width)) if key in PER_TOKEN else tensor
        inputs[key] = longer.to(ids.device)
    return {"position_ids": positions(model, ids, mask, inputs), **inputs}
