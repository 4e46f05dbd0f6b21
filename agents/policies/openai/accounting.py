"""What replies cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from selfsurf.agents.policy import Usage


@dataclass(frozen=True)
class Prices:
    """US dollars per million tokens."""

    input: float
    output: float
    cached: float | None = None
    """Of the prompt's, those that were cached; as `input` if None."""

    def cost(self, prompt_tokens: int, cached_tokens: int, completion_tokens: int) -> float:
        """US dollars of one reply; the cached tokens are part of the prompt's."""
        cached = self.input if self.cached is None else self.cached
        fresh = prompt_tokens - cached_tokens
        return (fresh * self.input + cached_tokens * cached + completion_tokens * self.output) / 1_000_000


def prices_of(given: Prices | Mapping[str, float] | None) -> Prices | None:
    """Return prices that may be given as a dict.

    Raises:
        ValueError: its fields are not those of `Prices`, or one is negative.
    """
    if not isinstance(given, Mapping):
        return given
    fields = {"input", "output", "cached"}
    if not {"input", "output"} <= set(given) <= fields or min(given.values()) < 0:
        raise ValueError(
            'prices are dollars per million tokens, such as {"input": 0.15, "output": 0.6} and, where it differs, '
            f'"cached", not {dict(given)}.'
        )
    return Prices(**given)


@dataclass(frozen=True)
class Totals:
    """What a policy has used since it was made."""

    requests: int = 0
    """Every attempt at a reply, failed ones included."""
    replies: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None
    """US dollars, where prices are known. Failed attempts are not counted: no server says what they cost."""

    def with_request(self) -> Totals:
        """These and one more attempt."""
        return replace(self, requests=self.requests + 1)

    def with_reply(self, usage: Usage | None) -> Totals:
        """These and one more reply, of which only the number counts if its usage is unknown."""
        if usage is None:
            return replace(self, replies=self.replies + 1)
        return replace(
            self,
            replies=self.replies + 1,
            prompt_tokens=self.prompt_tokens + usage.prompt_tokens,
            cached_tokens=self.cached_tokens + usage.cached_tokens,
            completion_tokens=self.completion_tokens + usage.completion_tokens,
            cost=self.cost if usage.cost is None else (self.cost or 0.0) + usage.cost,
        )
