"""What a provider is: something that carries out the five calls on a page of its own.

Those that come with the package are in `browser_env.router.providers`. To add another, subclass `Provider` and hand an
object of it to the router, or name the class (`module:Class`) where a command takes providers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

from selfsurf.browser_env.attempts.attempt import ErrorType, Evidence, Failure
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
"""A policy: an instruction and what is seen -> an action in any form, or None where nothing fits."""

Complete: TypeAlias = Callable[[Sequence[Mapping[str, str]], Mapping[str, Any] | None], str | Awaitable[str]]
"""A model: messages (`role`, `text`) and the JSON schema of the reply, if there is one -> the reply's text."""

RETRYABLE: frozenset[ErrorType] = frozenset({"timeout", "crashed", "not_found", "navigation", "no_effect", "unknown"})
"""Kinds of failures after which the same call may work."""


class ProviderError(Exception):
    """A provider could not carry out a call.

    Args:
        type: what kind of failure.
        message: a sentence for the model and the log.
        retryable: whether the same call may work; by default as its kind (`RETRYABLE`).
        nodes: the elements concerned, as `evidence` takes them.
    """

    def __init__(
        self, type: ErrorType, message: str, *, retryable: bool | None = None, nodes: Sequence[Any] = ()
    ) -> None:
        super().__init__(message)
        self.failure = Failure(type, message, type in RETRYABLE if retryable is None else retryable)
        self.nodes = tuple(nodes)


class Provider(ABC):
    """Carries out the five calls. All methods run on one event loop, one at a time.

    A call that fails raises `ProviderError`; any other exception counts as `unknown`, a `TimeoutError` as `timeout`.
    The first call starts whatever is needed; what is missing raises `unavailable` then.
    """

    name: str
    """As in logs and options."""

    @abstractmethod
    async def navigate(self, arguments: NavigateArguments) -> NavigateResult:
        """Go to a URL and wait until its page can be used."""

    @abstractmethod
    async def act(self, arguments: ActArguments) -> ActResult:
        """Do one thing."""

    @abstractmethod
    async def extract(self, arguments: ExtractArguments) -> ExtractResult:
        """Read something from the page."""

    @abstractmethod
    async def observe(self, arguments: ObserveArguments) -> ObserveResult:
        """See the page."""

    @abstractmethod
    async def screenshot(self, arguments: ScreenshotArguments) -> ScreenshotResult:
        """Take a picture."""

    async def url(self) -> str:
        """Return the address of the page; empty where it is not known. Starts what a call starts."""
        return ""

    async def evidence(self, *, failed: bool, nodes: Sequence[Any] = (), screenshot: bool = True) -> Evidence:
        """Return what is to be kept of the page after an attempt. Must not raise, and takes 2 s at most.

        Args:
            failed: add the accessibility tree and the DOM around `nodes`.
            nodes: the elements concerned, as the provider's `ProviderError` named them.
            screenshot: add a picture, secrets painted over.
        """
        return Evidence(cut=("This provider collects no evidence.",))

    async def restart(self, url: str) -> None:
        """Start again after a crash, at the page where it was if possible.

        Args:
            url: the last one that is known; empty if none is.

        Raises:
            ProviderError: it can't be started again here. Of type `crashed`: the run ends with the page.
        """
        return None

    async def close(self) -> None:
        """Release what was started. May be called more than once."""
        return None
