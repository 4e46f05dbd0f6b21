"""Checks of the arguments of `Policy.complete`, the same for every backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from selfsurf.agents.policy import Guidance


def one_each(kind: str, given: Sequence[Any] | None, count: int) -> list[Any]:
    """Return one item for each conversation; None each where nothing is given.

    Raises:
        ValueError: there are more or fewer than `count`.
    """
    if given is None:
        return [None] * count
    if len(given) != count:
        raise ValueError(f"{len(given)} {kind}s were given for {count} conversations.")
    return list(given)


def followed(
    subject: str, guidance: Guidance, grammars: Sequence[Any] | None, schemas: Sequence[Any] | None, count: int
) -> tuple[list[Any], list[Any]]:
    """Return grammars and schemas, one for each conversation.

    Args:
        subject: the beginning of the error message about a wrong kind: `llama is guided by`.
        guidance: the kind that the policy follows.
        grammars: as `Policy.complete` takes them.
        schemas: the same.
        count: of conversations.

    Raises:
        ValueError: their number is not that of the conversations, or they are not of the policy's kind.
    """
    guides = one_each("grammar", grammars, count), one_each("schema", schemas, count)
    for kind, given in zip(("grammar", "schema"), guides, strict=True):
        if any(given) and guidance != kind:
            raise ValueError(f"{subject} {guidance}, but a {kind} was given.")
    return guides


def row_seeds(seed: int | Sequence[int], count: int) -> list[int]:
    """Return a seed for each of `count` rows: those given, or the given one and its successors.

    Raises:
        ValueError: there are more or fewer than `count`.
    """
    if isinstance(seed, Sequence):
        return one_each("seed", seed, count)
    return [seed + row for row in range(count)]


def check_sampling(temperature: float, max_new_tokens: int) -> None:
    """Raise ValueError for settings that nothing can be sampled with."""
    if temperature < 0 or max_new_tokens < 1:
        raise ValueError("temperature must be at least 0 and max_new_tokens at least 1.")


def check_length(prompt: int, new: int, limit: int | None) -> None:
    """Raise ValueError if prompt and reply together exceed the context."""
    if limit is not None and prompt + new > limit:
        raise ValueError(f"{prompt} prompt tokens and {new} new ones exceed the context of {limit}.")
