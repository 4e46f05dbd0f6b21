"""When the router tries again, when it asks another provider, and how long an attempt may take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from selfsurf.browser_env.attempts.attempt import ErrorType

Reaction: TypeAlias = Literal["retry", "fall back", "tell"]
"""What a failure leads to: `retry`: the model is told to try once more, and why, until the provider's retries are used
up; then another provider is asked. `fall back`: another one is asked at once. `tell`: the model is told, and nobody
else is asked, since nobody could do better or may."""

REACTIONS: Mapping[ErrorType, Reaction] = {
    "invalid_arguments": "tell",
    "refused": "tell",  # what a rule or a person has refused isn't tried behind their back
    "cancelled": "tell",  # a person is to decide
    "model": "tell",  # another provider asks the same one
    "unavailable": "fall back",
}
"""Reactions to kinds of failures; any other kind is tried again."""

RETRIES: Mapping[str, int] = {"webview": 0}
"""Retries of a provider in a request or step; any other one has `Policy.retries`."""


@dataclass(frozen=True)
class Policy:
    """How calls are routed."""

    retries: int = 1
    """How often the model may try a provider again in a request or step, whatever it calls, before another one is
    asked."""
    retries_of: Mapping[str, int] = field(default_factory=lambda: dict(RETRIES))
    """The same for single providers, by name."""
    reactions: Mapping[ErrorType, Reaction] = field(default_factory=lambda: dict(REACTIONS))
    """By kind of failure; `retry` for any other."""
    scope: Literal["request", "step"] = "request"
    """For how long failures are counted, and a provider that failed too often stays disabled: until the next
    `Router.begin`, or for the calls of one `step_id`. A call without one is a step, together with its repetition."""
    deadline: float = 60.0
    """Seconds for an attempt; longer than a step of the environment may take, whose own limit says more."""

    def __post_init__(self) -> None:
        if min(self.retries, *self.retries_of.values(), 0) < 0:
            raise ValueError("A router's policy: numbers of retries are 0 or more.")
        if not self.deadline > 0:
            raise ValueError(f"A router's policy: deadline is a number of seconds above 0, not {self.deadline!r}.")

    def retries_for(self, provider: str) -> int:
        """Return how often a provider may be tried again."""
        return self.retries_of.get(provider, self.retries)
