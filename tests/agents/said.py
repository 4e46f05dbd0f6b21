"""Policies around the real small model whose replies are given, and that may be shown pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from selfsurf.agents.agent import Decision
from selfsurf.agents.llm.llm_agent import LLMAgent
from selfsurf.agents.policy import Completion, Message

IMAGE_TOKENS = 200


class Noting(LLMAgent):
    """An agent whose latest decisions can be looked at."""

    decisions: list[Decision]

    def decide(self, *args: Any, **options: Any) -> list[Decision]:
        self.decisions = super().decide(*args, **options)
        return self.decisions


class Saying:
    """The real policy's prompts and counts; what the agent makes of given replies is tested. The last one repeats."""

    def __init__(self, policy: Any, *replies: str) -> None:
        self._policy = policy
        self._replies = list(replies)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)

    def complete(self, conversations: Any, **options: Any) -> list[Completion]:
        return [self._reply() for _ in conversations]

    def _reply(self) -> Completion:
        text = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        return Completion(text, [], [], [], None, "eos")


class Seeing(Saying):
    """Takes pictures, and counts them by a fixed number of tokens."""

    sees_images = True

    def count_prompt_tokens(self, messages: Sequence[Message], prefill: str = "") -> int:
        images = sum(len(message.images) for message in messages)
        blind = [Message(message.role, message.text) for message in messages]
        return int(self._policy.count_prompt_tokens(blind, prefill)) + IMAGE_TOKENS * images


def saying(policy: Any, *replies: str, **options: Any) -> Noting:
    """An agent that is told what its model replies."""
    return Noting(Saying(policy, *replies), constrained=False, prefill="", **options)


def seeing(policy: Any, **options: Any) -> Noting:
    """An agent whose model sees, and clicks element 1."""
    return Noting(Seeing(policy, '{"click":1}'), **options)
