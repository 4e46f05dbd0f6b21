"""An attempt: one call of one provider, as the router makes it and the log keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

ErrorType = Literal[
    "timeout", "crashed", "not_found", "blocked", "refused", "invalid_arguments", "navigation", "unavailable",
    "no_effect", "model", "cancelled", "unknown",
]  # fmt: skip
"""Kinds of failures: what retries and regressions are counted by. `cancelled` is nobody's failure: the caller gave the
call up before it ended, or a person is to decide first."""


@dataclass(frozen=True)
class Failure:
    """What went wrong, in the form that is logged and told to a model."""

    type: ErrorType
    message: str
    retryable: bool


@dataclass(frozen=True)
class Attempt:
    """One call of one provider."""

    trace_id: str
    """Of the request: one task, one episode."""
    step_id: str
    """Of the step: one call of the router, with all its attempts."""
    attempt_id: str
    action: str
    """`navigate`, `act`, `extract`, `observe` or `screenshot`."""
    provider: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """As they were passed; the log keeps their hash and a redacted form."""
    retry_used: bool = False
    stagehand_disabled: bool = False


@dataclass(frozen=True)
class Evidence:
    """What is kept of the page at the end of an attempt. Parts that could not be had in time are None."""

    url: str = ""
    screenshot: bytes | None = None
    """PNG, secrets already painted over."""
    tree: Any = None
    """The accessibility tree; on failure only."""
    dom: Any = None
    """The DOM around the nodes concerned; on failure only."""
    cut: tuple[str, ...] = ()
    """Which parts were cut or left out, and why, a sentence each."""
    status: int | None = None
    """HTTP status of the page that the attempt has led to, where it is an error."""
    values: tuple[str, ...] = ()
    """What the fields of the page hold: masked wherever it turns up, and not written itself; on failure only."""


class AttemptLog(Protocol):
    """Where a router tells what it does. Every call returns at once: writing never holds a step up."""

    def started(self, attempt: Attempt) -> None:
        """An attempt begins."""

    def succeeded(self, attempt: Attempt, duration_ms: float, evidence: Evidence | None = None) -> None:
        """It returned a result."""

    def failed(self, attempt: Attempt, duration_ms: float, failure: Failure, evidence: Evidence | None = None) -> None:
        """It returned an error, or was `cancelled`."""

    def fell_back(self, attempt: Attempt, to: str, reason: str) -> None:
        """Another provider is asked instead."""

    def disabled(self, attempt: Attempt, reason: str) -> None:
        """The attempt's provider is not asked again in this request."""

    def close(self, decision: str, reason: str = "") -> None:
        """The request is over: write the summary.

        Args:
            decision: what came of it, in the words of `browser_env.outcome`; `done` where only the agent says so.
            reason: why, where the attempts don't say.
        """
