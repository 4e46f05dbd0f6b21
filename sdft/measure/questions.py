"""A fixed set of easy general questions: how much of what a model knew it still answers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from selfsurf.agents.policies.transformers.policy import TransformersPolicy


@dataclass(frozen=True)
class Question:
    """The beginning of a sentence and four ways to end it."""

    question: str
    options: list[str]
    answer: int
    """Which of the options is right."""


def questions() -> list[Question]:
    """Return the questions: geography, words, small numbers, everyday knowledge; one option of each is right.

    They were written for this purpose.
    """
    lines = resources.files("selfsurf.sdft").joinpath("data/questions.jsonl").read_text(encoding="utf8").splitlines()
    return [Question(**json.loads(line)) for line in lines]


def answers(policy: TransformersPolicy) -> dict[str, Any]:
    """Let a model choose: the option whose tokens are likeliest on average after the question.

    Args:
        policy: the model, with whatever adapter is active.

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
    """Mean log-probability of each option's tokens after the question."""
    import torch

    given = policy.tokenizer.encode(one.question, add_special_tokens=False)
    endings = [policy.tokenizer.encode(f" {option}", add_special_tokens=False) for option in one.options]
    width = max(map(len, endings))
    # What is padded stands on the right, where no token before it can see it.
    rows = [[*given, *ending, *[0] * (width - len(ending))] for ending in endings]
    device = policy.model.get_input_embeddings().weight.device
    with policy.reading():
        logits = policy.model(input_ids=torch.tensor(rows, device=device)).logits[:, len(given) - 1 : -1].float()
    logprobs = torch.log_softmax(logits, -1)
    return [float(row[range(len(ending)), ending].mean()) for row, ending in zip(logprobs, endings, strict=True)]
