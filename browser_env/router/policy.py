"""Policy of the router: when to retry, when to fall back to another provider, and how long an attempt may take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from selfsurf.browser_env.errors import ErrorType

Reaction: TypeAlias = Literal["retry", "fall back", "tell"]
"""Reactions to a failure. `retry`: ask the model to repeat the call; once the provider's retries are used up, use
another provider. `fall back`: use another provider at once. `tell`: report the failure to the model, because another
provider couldn't or mustn't do better."""

REACTIONS: Mapping[ErrorType, Reaction] = {
    "invalid_arguments": "tell",
    "refused": "tell",  # a refusal by a rule or a person must not be circumvented
    "cancelled": "tell",  # a person has to decide first
    "model": "tell",  # another provider would call the same model
    "unavailable": "fall back",
}
"""Reactions by kind of failure; `retry` for all others."""

RETRIES: Mapping[str, int] = {"webview": 0}
"""Retries per request or step, by provider; `Policy.retries` for all others."""


@dataclass(frozen=True)
class Policy:
    """Rules by which calls are routed."""

    retries: int = 1
    """Number of times the model may retry a provider in a request or step, whatever the calls, before another provider
    is used."""
    retries_of: Mapping[str, int] = field(default_factory=lambda: dict(RETRIES))
    """Numbers of retries of single providers, by name."""
    reactions: Mapping[ErrorType, Reaction] = field(default_factory=lambda: dict(REACTIONS))
    """Reactions by kind of failure; `retry` for all others."""
    scope: Literal["request", "step"] = "request"
    """Period in which failures are counted and a failed provider stays disabled: until the next `Router.begin`, or for
    the calls with one `step_id`. A call without `step_id` forms a step together with its repetition."""
    deadline: float = 60.0
    """Seconds for an attempt. Longer than the step limit of the environment, whose error is more specific."""

    def __post_init__(self) -> None:
        if min(self.retries, *self.retries_of.values(), 0) < 0:
            raise ValueError("In a router's policy, numbers of retries must be 0 or more.")
        if not self.deadline > 0:
            raise ValueError(
                f"In a router's policy, deadline must be a number of seconds above 0, not {self.deadline!r}."
            )

    def retries_for(self, provider: str) -> int:
        """Return how often a provider may be retried."""
        return self.retries_of.get(provider, self.retries)
