"""Data types and interface of the attempt log. An attempt is one call of one provider by the router."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from selfsurf.browser_env.errors import ErrorType


@dataclass(frozen=True)
class Failure:
    """The failure of an attempt, as logged and as reported to a model."""

    type: ErrorType
    message: str
    retryable: bool


@dataclass(frozen=True)
class Attempt:
    """One call of one provider by the router."""

    trace_id: str
    """ID of the request: one task, one episode."""
    step_id: str
    """ID of the step: one call of the router, with all its attempts."""
    attempt_id: str
    action: str
    """Name of the action: `navigate`, `act`, `extract`, `observe` or `screenshot`."""
    provider: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Arguments as passed by the caller; the log keeps their hash and a redacted form."""
    retry_used: bool = False
    stagehand_disabled: bool = False


@dataclass(frozen=True)
class Evidence:
    """The page as recorded at the end of an attempt. Parts that couldn't be recorded in time are None."""

    url: str = ""
    screenshot: bytes | None = None
    """Screenshot as PNG, with secrets already painted over."""
    tree: Any = None
    """Accessibility tree; recorded only on failure."""
    dom: Any = None
    """DOM around the relevant nodes; recorded only on failure."""
    cut: tuple[str, ...] = ()
    """Parts that were truncated or left out, each with the reason in a sentence."""
    status: int | None = None
    """HTTP status of the page that the attempt led to, if it is an error; otherwise None."""
    values: tuple[str, ...] = ()
    """Values of the page's form fields, recorded only on failure: masked wherever they occur in the log, never written.
    """


class AttemptLog(Protocol):
    """Log interface to which the router reports its attempts. Calls return at once: writing never delays a step."""

    def started(self, attempt: Attempt) -> None:
        """Record the start of an attempt."""

    def succeeded(self, attempt: Attempt, duration_ms: float, evidence: Evidence | None = None) -> None:
        """Record an attempt that returned a result."""

    def failed(self, attempt: Attempt, duration_ms: float, failure: Failure, evidence: Evidence | None = None) -> None:
        """Record an attempt that returned an error or was `cancelled`."""

    def fell_back(self, attempt: Attempt, to: str, reason: str) -> None:
        """Record that the router falls back to another provider."""

    def disabled(self, attempt: Attempt, reason: str) -> None:
        """Record that the attempt's provider is disabled for the rest of the request."""

    def close(self, decision: str, reason: str = "") -> None:
        """End the request's log and write its summary.

        Args:
            decision: result of the request, as defined in `browser_env.outcome`; `done` if only the agent reports
                success.
            reason: explanation of the result, if the attempts don't contain it.
        """
