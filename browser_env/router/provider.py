"""The interface of a provider, which performs the five calls on a page of its own.

`browser_env.router.providers` contains the providers of this package. To add another, subclass `Provider` and pass an
instance to the router, or name the class (`module:Class`) where a command accepts providers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

from selfsurf.browser_env.attempts.attempt import Evidence, Failure
from selfsurf.browser_env.errors import ErrorType
from selfsurf.browser_env.observation import Observation
from selfsurf.browser_env.router.calls import (
    ActArguments,
    ActResult,
    ExtractArguments,
    ExtractResult,
    NavigateArguments,
    NavigateResult,
    ObserveArguments,
    ObserveResult,
    ScreenshotArguments,
    ScreenshotResult,
)

Decide: TypeAlias = Callable[[str, Observation], Any | Awaitable[Any]]
"""Policy that maps an instruction and an observation to an action in any form, or to None if no action fits."""

Complete: TypeAlias = Callable[[Sequence[Mapping[str, str]], Mapping[str, Any] | None], str | Awaitable[str]]
"""Model that maps messages (`role`, `text`) and an optional JSON schema of the reply to the text of the reply."""

RETRYABLE: frozenset[ErrorType] = frozenset({"timeout", "crashed", "not_found", "navigation", "no_effect", "unknown"})
"""Kinds of failures after which the same call may succeed."""


class ProviderError(Exception):
    """A provider could not perform a call.

    Args:
        type: kind of failure.
        message: a sentence for the model and the log.
        retryable: whether the same call may succeed; by default determined by the kind (`RETRYABLE`).
        nodes: the relevant elements, as accepted by `evidence`.
    """

    def __init__(
        self, type: ErrorType, message: str, *, retryable: bool | None = None, nodes: Sequence[Any] = ()
    ) -> None:
        super().__init__(message)
        self.failure = Failure(type, message, type in RETRYABLE if retryable is None else retryable)
        self.nodes = tuple(nodes)


class Provider(ABC):
    """Base of providers, which perform the five calls. All methods run on one event loop, one at a time.

    A failed call raises `ProviderError`; any other exception counts as `unknown`, a `TimeoutError` as `timeout`. The
    first call starts the browser; if a requirement is missing, the call raises `unavailable`.
    """

    name: str
    """Name of the provider in logs and options."""

    @abstractmethod
    async def navigate(self, arguments: NavigateArguments) -> NavigateResult:
        """Go to a URL and wait until its page can be used."""

    @abstractmethod
    async def act(self, arguments: ActArguments) -> ActResult:
        """Perform one action."""

    @abstractmethod
    async def extract(self, arguments: ExtractArguments) -> ExtractResult:
        """Read data from the page into a typed model."""

    @abstractmethod
    async def observe(self, arguments: ObserveArguments) -> ObserveResult:
        """Return the page's outline and elements."""

    @abstractmethod
    async def screenshot(self, arguments: ScreenshotArguments) -> ScreenshotResult:
        """Take a screenshot of the viewport."""

    async def url(self) -> str:
        """Return the address of the page; empty if unknown. Starts the browser like any call."""
        return ""

    async def evidence(self, *, failed: bool, nodes: Sequence[Any] = (), screenshot: bool = True) -> Evidence:
        """Return evidence of the page after an attempt. Must not raise, and must return within 2 s.

        Args:
            failed: add the accessibility tree and the DOM around `nodes`.
            nodes: the relevant elements, as in the provider's `ProviderError`.
            screenshot: add a screenshot, with secrets painted over.
        """
        return Evidence(cut=("This provider collects no evidence.",))

    async def restart(self, url: str) -> None:
        """Start again after a crash, if possible on the same page.

        Args:
            url: the last known address; empty if there is none.

        Raises:
            ProviderError: a restart is impossible here. With type `crashed`, the run ends with the page.
        """
        return None

    async def close(self) -> None:
        """Release everything that was started. May be called more than once."""
        return None
