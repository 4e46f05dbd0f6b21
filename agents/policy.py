"""The interface of policies, which turn conversations into completions. Independent of web pages and actions.

Each backend is a folder in `agents.policies`, whose docstring describes how to add a backend.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

FinishReason: TypeAlias = Literal["eos", "grammar", "length"]
"""Why sampling ended: the model ended its turn, the grammar allowed nothing more, or `max_new_tokens` was reached."""

Guidance: TypeAlias = Literal["grammar", "schema", "none"]
"""How a policy can be constrained to valid actions: by a Lark grammar, by a JSON schema, or not at all."""


class PolicyError(RuntimeError):
    """A model could not answer: no connection, an overloaded server, a lost process. Never the agent's own fault.

    Args:
        text: the reason.
        answers: results of a call for several conversations: a `Completion` or an error for each. Empty: all failed.
    """

    def __init__(self, text: str, answers: Sequence[Completion | Exception] = ()) -> None:
        super().__init__(text)
        self.answers = answers

    def of_each(self, count: int) -> Sequence[Completion | Exception]:
        """Return the results of `count` conversations; this error for each if `answers` is empty."""
        return self.answers or [self] * count


@dataclass(frozen=True)
class Call:
    """A model's call of a tool offered to the server."""

    id: str
    name: str
    arguments: str
    """Arguments of the call, as JSON."""


@dataclass(frozen=True)
class Message:
    """One turn of a conversation."""

    role: str
    """Role of the author: `system`, `user` or `assistant`; `tool` for the result of `call`."""
    text: str
    images: tuple[Any, ...] = ()
    """Images as uint8 RGB arrays of shape (height, width, 3); empty for text-only policies."""
    call: Call | None = None
    """The tool call that the message makes or answers; None for other messages."""
    goal_only: str | None = field(default=None, compare=False)
    """The part of `text` before history and page; None for the whole text."""
    plain: str | None = field(default=None, compare=False)
    """`text` without the history and without the actions listed for the page's elements; None for the whole text."""


Conversation: TypeAlias = Sequence[Message]


@dataclass(frozen=True)
class Usage:
    """Tokens, cost and time of a completion."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    """Prompt tokens read from a cache instead of being computed."""
    cost: float | None = None
    """Cost in US dollars; None if prices are unknown."""
    seconds: float = 0.0
    """Wall-clock time of the completion, in seconds; for a batched completion, of the whole batch."""
    attempts: int = 1


def summed(one: Usage | None, other: Usage | None) -> Usage | None:
    """Return the total usage of two completions; None if either is unknown."""
    if one is None or other is None:
        return None
    cost = None if one.cost is None or other.cost is None else one.cost + other.cost
    return Usage(
        one.prompt_tokens + other.prompt_tokens,
        one.completion_tokens + other.completion_tokens,
        one.cached_tokens + other.cached_tokens,
        cost,
        one.seconds + other.seconds,
        one.attempts + other.attempts,
    )


@dataclass(frozen=True)
class Completion:
    """One sampled reply, with the tokens exactly as they were sampled. Training never re-tokenises `text`."""

    text: str
    """The whole reply: the prefill and the decoded sampled tokens, without special tokens."""
    prompt_token_ids: list[int]
    """Tokens of the prompt, the prefill included."""
    token_ids: list[int]
    """Sampled tokens, a sampled end-of-turn token included. Empty if the server doesn't report them."""
    logprobs: list[float]
    """Natural log-probability of each sampled token under the distribution it was drawn from, i.e. after the grammar's
    mask and the temperature; empty if the server doesn't report them. Greedy decoding reports the values of temperature
    1."""
    grammar: str | None
    """The llguidance Lark grammar that constrained the whole reply, or None."""
    finish_reason: FinishReason
    prefill_token_ids: list[int] = field(default_factory=list)
    """The last tokens of `prompt_token_ids` that already belong to the reply."""
    usage: Usage | None = None
    thinking: str = ""
    """The model's thinking before the reply, as reported by the server; no part of `text`."""

    @property
    def spent(self) -> Usage:
        """The reported usage, or else the completion's own token counts."""
        return self.usage or Usage(len(self.prompt_token_ids), len(self.token_ids))


class Policy(Protocol):
    """A language model that completes conversations in batches.

    `name` is recorded in episodes; `guidance` is the kind of constraint that the policy supports; `sees_images` is
    whether messages may carry images; `prompt_budget` is the default token limit of prompts, beyond which longer
    prompts don't pay off. A policy whose replies are tool calls also has `calls = True`, and takes `functions=`
    (`agents.policies.request.CheckedPolicy`).
    """

    name: str
    guidance: Guidance
    sees_images: bool
    prompt_budget: int

    @property
    def parameter_count(self) -> int | None:
        """Number of weights, or None if unknown (a remote model)."""

    @property
    def context_length(self) -> int | None:
        """Maximum number of tokens of prompt and reply together, or None if unknown."""

    def complete(
        self,
        conversations: Sequence[Conversation],
        *,
        grammars: Sequence[str | None] | None = None,
        schemas: Sequence[dict[str, Any] | None] | None = None,
        prefill: str = "",
        temperature: float = 0.0,
        max_new_tokens: int = 64,
        seed: int | Sequence[int] | None = None,
    ) -> list[Completion]:
        """Sample one reply for each conversation.

        Args:
            conversations: the messages, each ending with the user's.
            grammars: a Lark grammar of the whole reply (the prefill included) for each conversation, or None.
            schemas: a JSON schema of the whole reply for each conversation, or None. Callers pass either `grammars` or
                `schemas`, according to the policy's `guidance`.
            prefill: the reply's first characters, given to the model and not sampled.
            temperature: 0 takes the most likely token.
            max_new_tokens: most tokens sampled for each reply, the prefill not counted.
            seed: makes the call reproducible; None continues the policy's own random stream. A sequence holds a seed
                for each conversation, whose reply is then independent of the rest of the call.

        Raises:
            PolicyError: the model could not answer, after any retries.
            ValueError: the request is invalid (a prompt that is too long, images for a text model).
        """

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of `text` alone, without special tokens."""

    def count_prompt_tokens(self, messages: Conversation, prefill: str = "") -> int:
        """Return the number of tokens of the whole prompt, chat template and prefill included."""
