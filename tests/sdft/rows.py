"""Rows and batches without a browser: real replies to given conversations, as episodes of one step each."""

from __future__ import annotations

import copy
from typing import Any

from selfsurf.agents.agent import Decision
from selfsurf.agents.policies.transformers.policy import TransformersPolicy
from selfsurf.agents.policy import Message
from selfsurf.sdft.rollouts import Job, Result, Step
from selfsurf.sdft.rows.samples import Sample, collate

SEEN: Any = {"elements": [{"id": 1, "role": "button", "name": "Go", "tag": "button", "states": ()}], "tabs": []}
"""What of an observation tells whether an action can be said."""
TOLD = {"action": {"action": "click", "id": 1}, "reason": ""}
GRAMMAR = 'start: "{\\"click\\":" ("1" | "2" | "31") "}"'


def copied(policy: TransformersPolicy) -> TransformersPolicy:
    """A policy with a model of its own, the same so far."""
    return TransformersPolicy(copy.deepcopy(policy.model), policy.tokenizer)


def episodes_of(policy: TransformersPolicy, asked: list[list[Message]], **options: Any) -> list[Result]:
    """Sample at temperature 1, all but the second under a grammar."""
    grammars = [GRAMMAR, None, *[GRAMMAR] * len(asked)][: len(asked)]
    drawn = policy.complete(
        asked, grammars=grammars, prefill='{"', **{"temperature": 1.0, "max_new_tokens": 12, "seed": 3, **options}
    )
    decisions = [
        Decision(reply.text, reply, tuple(messages), frozenset({1}), "json")
        for messages, reply in zip(asked, drawn, strict=True)
    ]
    return [
        Result(
            Job("it", number), "failed", trainable=True, steps=[Step(SEEN, decision, TOLD, 0.0, {}, {"last_error": ""})]
        )  # type: ignore[typeddict-item]
        for number, decision in enumerate(decisions)
    ]


def batch_of(trainer: Any, rows: list[Sample]) -> dict[str, Any]:
    """A batch as the trainer makes it of its own episodes."""
    policy = trainer.policy
    batch: dict[str, Any] = collate(rows, policy.tokenizer.pad_token_id)
    return {**batch, "seen": [row.seen for row in rows]} if policy.sees_images else batch
