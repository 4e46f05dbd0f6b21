"""What a policy is: it turns conversations into completions. Knows nothing about web pages or actions.

Backends live in `agents.policies`, a folder each; its docstring says how to add one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

FinishReason: TypeAlias = Literal["eos", "grammar", "length"]
"""Why sampling ended: the model ended its turn, the grammar allows nothing more, or `max_new_tokens` was reached."""

Guidance: TypeAlias = Literal["grammar", "schema", "none"]
"""How a policy can be kept to valid actions: by a Lark grammar, by a JSON schema, or not at all."""


class PolicyError(RuntimeError):
    """A model could not answer: no connection, an overloaded server, a lost process. Never the agent's own fault.

    Args:
        text: why.
        answers: of a call for several conversations, what each got: a `Completion`, or the error that it failed with.
            Empty: none got any.
    """

    def __init__(self, text: str, answers: Sequence[Completion | Exception] = ()) -> None:
        super().__init__(text)
        self.answers = answers

    def of_each(self, count: int) -> Sequence[Completion | Exception]:
        """Return what each of `count` conversations got: this error where nothing else is known."""
        return self.answers or [self] * count


@dataclass(frozen=True)
class Call:
    """A model's call of a tool that the server was told of."""

    id: str
    name: str
    arguments: str
    """JSON."""


@dataclass(frozen=True)
class Message:
    """One turn of a conversation."""

    role: str
    """`system`, `user` or `assistant`; `tool` where `call` is given and this is its result."""
    text: str
    images: tuple[Any, ...] = ()
    """uint8 arrays (height, width, 3), RGB; empty for text-only policies."""
    call: Call | None = None
    """The call that this is, or whose result it is."""
    goal_only: str | None = field(default=None, compare=False)
    """The part of `text` before history and page; None: all of it."""
    plain: str | None = field(default=None, compare=False)
    """`text` without the history and without the actions behind the page's elements; None: the same."""


Conversation: TypeAlias = Sequence[Message]


@dataclass(frozen=True)
class Usage:
    """What a completion cost."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    """Tokens of the prompt that were not computed again."""
    cost: float | None = None
    """US dollars, where prices are known."""
    seconds: float = 0.0
    """Wall-clock, of the whole batch where one was made."""
    attempts: int = 1


def summed(one: Usage | None, other: Usage | None) -> Usage | None:
    """Return what two completions cost together; None where one of them is unknown."""
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
    """What the model was given, the prefill's tokens included."""
    token_ids: list[int]
    """What was sampled, an end-of-turn token included when one was sampled. Empty where a server doesn't report it."""
    logprobs: list[float]
    """Natural log-probability of each sampled token under the distribution it was drawn from, i.e. after the
    grammar's mask and the temperature; empty where a server doesn't report it. Greedy decoding reports the
    values of temperature 1."""
    grammar: str | None
    """The llguidance Lark grammar of the whole reply that it was sampled under, or None."""
    finish_reason: FinishReason
    prefill_token_ids: list[int] = field(default_factory=list)
    """The last tokens of `prompt_token_ids` that already belong to the reply."""
    usage: Usage | None = None
    thinking: str = ""
    """What a server says that the model thought before the reply; no part of `text`."""

    @property
    def spent(self) -> Usage:
        """What it cost, by its own tokens where nobody said."""
        return self.usage or Usage(len(self.prompt_token_ids), len(self.token_ids))


class Policy(Protocol):
    """A language model that completes conversations, many at a time.

    `name` is what an episode records; `guidance` is how it can be constrained; `sees_images` is whether messages may
    carry images; `prompt_budget` is the default limit of a prompt's tokens, beyond which they are not worth their time.
    One whose replies are tool calls also has `calls = True`, and takes `functions=`
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
        """Most tokens of prompt and reply together, or None if unknown."""

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
            schemas: a JSON schema of the whole reply for each conversation, or None; a policy follows the one of
                `grammars` and `schemas` that its `guidance` names, and gets no other.
            prefill: the reply's first characters, given to the model and not sampled.
            temperature: 0 takes the most likely token.
            max_new_tokens: most tokens sampled for each reply, the prefill not counted.
            seed: makes the call reproducible; None continues the policy's own random stream. A sequence holds a seed
                for each conversation, whose reply is then the same whatever else is in the call.

        Raises:
            PolicyError: the model could not answer, after any retries.
            ValueError: the request itself can't be answered (a prompt that is too long, images for a text model).
        """

    def count_tokens(self, text: str) -> int:
        """Number of tokens of `text` alone, without special tokens."""

    def count_prompt_tokens(self, messages: Conversation, prefill: str = "") -> int:
        """Number of tokens of the whole prompt, chat template and prefill included."""
