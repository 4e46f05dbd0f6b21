"""Training rows from episodes: one row per step, with exactly the tokens that the student saw and sampled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from selfsurf.agents.policies.local.policy import LocalPolicy
from selfsurf.agents.prompt.prompt import Sight, with_hint
from selfsurf.agents.reply.constraint import token_masks
from selfsurf.browser_env import Outcome
from selfsurf.sdft.rollouts import Result
from selfsurf.sdft.rows.images import VisualInputs, seen_of
from selfsurf.sdft.teacher.lessons import LessonContext
from selfsurf.sdft.teacher.oracle import EmptyContext, OracleContext

if TYPE_CHECKING:
    import torch

    from selfsurf.agents.policies.transformers.policy import TransformersPolicy


class _OfTask(Protocol):
    @property
    def env_id(self) -> str: ...


OfTask = TypeVar("OfTask", bound=_OfTask)


@dataclass(frozen=True)
class Sample:
    """One step of an on-policy episode as a training row."""

    env_id: str
    prompt_ids: list[int]
    """Tokens of the student's prompt, including the prefill."""
    teacher_prompt_ids: list[int]
    """Tokens of the student's prompt with the teacher's context at its end, including the prefill; never truncated."""
    completion_ids: list[int]
    """Tokens that the student sampled, verbatim."""
    logprobs: list[float]
    """Log-probabilities of the sampled tokens under the distribution that they were sampled from."""
    prefill_ids: list[int]
    grammar: str | None
    right: bool | None
    """Whether the student took the action in the teacher's context; None if the context names no action."""
    seen: VisualInputs = field(default_factory=VisualInputs)
    """Image inputs of a vision-language model."""
    version: int = 0
    """Version of the weights that sampled the row: the number of optimizer steps before."""
    told: str | None = None
    """Action in the teacher's context, as the student would write it; None if the context names no action."""


def samples_of(
    results: Sequence[Result],
    policy: LocalPolicy,
    lessons: LessonContext | None = None,
    batch: int = 0,
    *,
    teacher_sees: Sight = "all",
    success_gate: bool = False,
) -> list[Sample]:
    """Return the rows to learn from: every step of a learnable episode for which the teacher has context.

    Args:
        results: episodes of a batch.
        policy: policy whose tokenizer writes the teacher's prompts.
        lessons: contexts of the teacher; by default the oracle's actions.
        batch: number of the batch, from 0.
        teacher_sees: as in `TrainSettings`.
        success_gate: as in `TrainSettings`.

    Raises:
        ValueError: a reply contains several actions.
    """
    lessons = lessons or LessonContext((OracleContext(),))
    usable = [result for result in results if learnable(result)]
    rows = []
    for result, told in zip(usable, lessons.of(usable, batch), strict=True):
        for step, lesson in zip(result.steps, told, strict=True):
            completion = step.decision.completion
            if step.decision.more:
                raise ValueError(
                    f"A reply in {result.job.env_id} seed {result.job.seed} contains several actions, but a row "
                    "teaches only one: play training episodes with max_actions=1."
                )
            if lesson is None or not completion.token_ids:
                continue
            if success_gate and not (result.solved or step.reward > 0):
                continue
            messages = step.decision.messages
            sight = "all" if lesson.action is None else teacher_sees
            taught = policy.prompt(with_hint(messages, lesson.text, sight=sight))
            rows.append(
                Sample(
                    env_id=result.job.env_id,
                    prompt_ids=completion.prompt_token_ids,
                    teacher_prompt_ids=taught.ids + completion.prefill_token_ids,
                    completion_ids=completion.token_ids,
                    logprobs=completion.logprobs,
                    prefill_ids=completion.prefill_token_ids,
                    grammar=completion.grammar,
                    right=None if lesson.action is None else completion.text == lesson.action,
                    seen=seen_of(policy, messages, completion, taught) if policy.sees_images else VisualInputs(),
                    version=result.version,
                    told=lesson.action,
                )
            )
    return rows


def rows_of(results: Sequence[Result], policy: LocalPolicy) -> list[list[Sample]]:
    """Return the rows of each episode, one per step, for a trainer without a teacher, such as TRL's or a custom one.

    Episodes that the infrastructure failed and steps that the oracle took give no rows.
    """
    untold = LessonContext((EmptyContext(),))
    return [samples_of([result], policy, untold) for result in results]


def learnable(result: Result) -> bool:
    """Whether an episode has steps and its outcome is the student's own doing."""
    return bool(result.steps) and own_doing(result)


def own_doing(result: Result) -> bool:
    """Whether the student caused the outcome; true also for a finished open-ended episode, which has no verdict."""
    return result.trainable or result.outcome == Outcome.STOPPED


def choose(samples: Sequence[OfTask], most: int, rng: np.random.Generator) -> list[OfTask]:
    """Return at most `most` rows, evenly over the tasks, so that long episodes don't crowd out short ones."""
    by_task: dict[str, list[OfTask]] = {}
    for index in rng.permutation(len(samples)):
        by_task.setdefault(samples[index].env_id, []).append(samples[index])
    chosen: list[OfTask] = []
    while len(chosen) < min(most, len(samples)):
        for rows in by_task.values():
            if rows and len(chosen) < most:
                chosen.append(rows.pop())
    return chosen


def idle(pad_id: int) -> Sample:
    """Return a row without a loss, for a process that has to take part in a step without rows."""
    return Sample("", [pad_id], [pad_id], [pad_id], [0.0], [], None, right=None)


def collate(samples: Sequence[Sample], pad_id: int) -> dict[str, torch.Tensor]:
    """Pad rows into a batch, in the layout of TRL's trainers: prompts on the left, completions on the right.

    Returns:
        `prompt_ids`, `prompt_mask` (B, P); `completion_ids`, `completion_mask` (B, C); `teacher_input_ids`,
        `teacher_attention_mask` (B, Q + C); `old_per_token_logps` (B, C).
    """
    import torch
    from torch.nn.utils.rnn import pad_sequence

    def padded(rows: list[list[Any]], value: float, dtype: torch.dtype = torch.long, side: str = "right") -> Any:
        tensors = [torch.tensor(row, dtype=dtype) for row in rows]
        return pad_sequence(tensors, batch_first=True, padding_value=value, padding_side=side)

    def tokens(rows: list[list[int]], side: str) -> tuple[torch.Tensor, torch.Tensor]:
        return padded(rows, pad_id, side=side), padded([[1] * len(row) for row in rows], 0, side=side)

    prompt, prompt_mask = tokens([sample.prompt_ids for sample in samples], "left")
    teacher, teacher_mask = tokens([sample.teacher_prompt_ids for sample in samples], "left")
    completion, mask = tokens([sample.completion_ids for sample in samples], "right")
    return {
        "prompt_ids": prompt,
        "prompt_mask": prompt_mask,
        "completion_ids": completion,
        "completion_mask": mask,
        "teacher_input_ids": torch.cat([teacher, completion], dim=1),
        "teacher_attention_mask": torch.cat([teacher_mask, mask], dim=1),
        "old_per_token_logps": padded([sample.logprobs for sample in samples], 0, torch.float32),
    }


def allowed_tokens(samples: Sequence[Sample], policy: TransformersPolicy) -> torch.Tensor:
    """Return the tokens (B, C, V) allowed at each position (`allowed_masks`), for a torch model."""
    import torch

    return torch.from_numpy(allowed_masks(samples, policy, policy.model.get_output_embeddings().weight.shape[0]))


def allowed_masks(samples: Sequence[Sample], policy: LocalPolicy, vocabulary: int) -> NDArray[np.bool_]:
    """Return the tokens (B, C, V) that the grammar allowed at each position; all tokens without a grammar.

    Args:
        samples: B rows of at most C tokens each.
        policy: policy with the tokenizer of the rows.
        vocabulary: V, the width of the model's logits.
    """
    width = max(len(sample.completion_ids) for sample in samples)
    allowed = np.ones((len(samples), width, vocabulary), dtype=np.bool_)
    for row, sample in enumerate(samples):
        if sample.grammar is not None:
            allowed[row, : len(sample.completion_ids)] = token_masks(
                policy.tokenizer,
                sample.grammar,
                sample.completion_ids,
                sample.prefill_ids,
                vocabulary=vocabulary,
                eos_token_ids=sorted(policy.eos_token_ids),
            )
    return allowed
