"""A fixed set of easy general questions that measure how much of its knowledge a model retains."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from selfsurf.agents.policies.transformers.policy import TransformersPolicy


@dataclass(frozen=True)
class Question:
    """The beginning of a sentence, and four endings to choose from."""

    question: str
    options: list[str]
    answer: int
    """Index of the right option."""


def questions() -> list[Question]:
    """Return the questions: geography, words, small numbers and everyday knowledge, with one right option each.

    They were written for this purpose.
    """
    lines = resources.files("selfsurf.sdft").joinpath("data/questions.jsonl").read_text(encoding="utf8").splitlines()
    return [Question(**json.loads(line)) for line in lines]


def answers(policy: TransformersPolicy) -> dict[str, Any]:
    """Let a model choose the option with the highest mean log-probability per token after the question.

    Args:
        policy: the model, with its active adapter.

    Returns:
        `right`, for each question whether the choice is right; `accuracy`, their share; `probability`, the mean share
        of the right option in the options' likelihood, which changes before a choice does.
    """
    import torch

    right, shares = [], []
    for one in questions():
        scores = torch.tensor(_scores(policy, one))
        right.append(int(scores.argmax()) == one.answer)
        shares.append(float(torch.softmax(scores, 0)[one.answer]))
    return {"right": right, "accuracy": sum(right) / len(right), "probability": sum(shares) / len(shares)}


def _scores(policy: TransformersPolicy, one: Question) -> list[float]:
    """Return the mean log-probability of each option's tokens after the question."""
    import torch

    given = policy.tokenizer.encode(one.question, add_special_tokens=False)
    endings = [policy.tokenizer.encode(f" {option}", add_special_tokens=False) for option in one.options]
    width = max(map(len, endings))
    # Padding is on the right, where causal attention keeps it invisible to earlier tokens.
    rows = [[*given, *ending, *[0] * (width - len(ending))] for ending in endings]
    device = policy.model.get_input_embeddings().weight.device
    with policy.reading():
        logits = policy.model(input_ids=torch.tensor(rows, device=device)).logits[:, len(given) - 1 : -1].float()
    logprobs = torch.log_softmax(logits, -1)
    return [float(row[range(len(ending)), ending].mean()) for row, ending in zip(logprobs, endings, strict=True)]
