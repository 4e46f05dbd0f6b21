"""The single entry point for browser calls: it picks the provider, reacts to failures by policy, and logs each attempt.

Knows nothing of browsers. What a model calls is in `browser_env.router.tools`.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

from pydantic import BaseModel

from selfsurf.browser_env.attempts.attempt import Attempt, AttemptLog, Evidence, Failure
from selfsurf.browser_env.errors import reason
from selfsurf.browser_env.router.calls import (
    ActArguments,
    ActResult,
    Arguments,
    ExtractArguments,
    ExtractResult,
    NavigateArguments,
    NavigateResult,
    ObserveArguments,
    ObserveResult,
    Result,
    ScreenshotArguments,
    ScreenshotResult,
)
from selfsurf.browser_env.router.policy import Policy
from selfsurf.browser_env.router.provider import Provider, ProviderError

EVIDENCE_BOUND = 3.0
"""Seconds after which evidence is given up that a provider should have returned within 2 s."""

Model = TypeVar("Model", bound=BaseModel)


class CallFailed(Exception):
    """A call failed, and it is the model's turn. `failure` is what a tool returns; the text says what to do."""

    def __init__(self, failure: Failure, provider: str) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.provider = provider


@dataclass
class _Scope:
    """What is known of the providers in one request or step."""

    failures: Counter[str] = field(default_factory=Counter)
    """By provider."""
    repeats: dict[str, str] = field(default_factory=dict)
    """By provider: the call that the model was told to make once more, until it is made."""
    disabled: set[str] = field(default_factory=set)


class Router:
    """Routes the calls of one request at a time.

    Args:
        providers: in the order in which they are asked.
        policy: when to retry and fall back, and how long an attempt may take.
        log: where attempts are told; without one no evidence is collected.
        trace_id: of the first request; a new one by default.

    Raises:
        ValueError: there is no provider, or two have the same name.
    """

    def __init__(
        self,
        providers: Sequence[Provider],
        *,
        policy: Policy | None = None,
        log: AttemptLog | None = None,
        trace_id: str | None = None,
    ) -> None:
        names = [provider.name for provider in providers]
        if not names or len(set(names)) < len(names):
            raise ValueError(f"A router needs providers with different names, not {', '.join(names) or 'none'}.")
        self.providers = tuple(providers)
        self.policy = policy or Policy()
        self._one_at_a_time = asyncio.Lock()
        self._url = ""
        self._current: Provider | None = None
        self._seen_by: Provider | None = None
        self.begin(log=log, trace_id=trace_id)

    def begin(self, *, log: AttemptLog | None = None, trace_id: str | None = None) -> str:
        """Begin another request: nothing is disabled any more. Returns its trace id."""
        self.log = log
        self.trace_id = trace_id or _new_id()
        self._scopes: dict[str, _Scope] = {}
        self._unfinished: dict[str, str] = {}
        """Steps that the router has named and whose call is to be made once more, by that call."""
        self._pictures: dict[str, tuple[str, Evidence]] = {}
        """By provider: the id of its last attempt with a picture, and the evidence."""
        return self.trace_id

    def end(self, decision: str, reason: str = "") -> None:
        """End the request.

        Args:
            decision: as of `AttemptLog.close`.
            reason: why, where the attempts don't say.
        """
        if self.log is not None:
            self.log.close(decision, *filter(None, [reason]))
            self.log = None

    async def close(self) -> None:
        """Release what the providers have started."""
        await asyncio.gather(*(provider.close() for provider in self.providers), return_exceptions=True)

    async def navigate(self, url: str, *, step_id: str | None = None) -> NavigateResult:
        """Go to a URL. Raises as `call`."""
        return cast(NavigateResult, await self.call(NavigateArguments(url=url), step_id=step_id))

    async def act(self, what: str | Any, *, step_id: str | None = None) -> ActResult:
        """Do something: an instruction in words, or an action, typed or as a dict. Raises as `call`."""
        given: dict[str, Any] = {"instruction" if isinstance(what, str) else "action": what}
        return cast(ActResult, await self.call(ActArguments(**given), step_id=step_id))

    async def extract(self, instruction: str, model: type[Model], *, step_id: str | None = None) -> Model:
        """Read something from the page into a pydantic model. Raises as `call`."""
        arguments = ExtractArguments(instruction=instruction, model=model)
        return cast(Model, cast(ExtractResult, await self.call(arguments, step_id=step_id)).data)

    async def observe(self, instruction: str = "", *, find: str = "", step_id: str | None = None) -> ObserveResult:
        """See the page, or with `find` the lines of it that have a text. Raises as `call`."""
        arguments = ObserveArguments(instruction=instruction, find=find)
        return cast(ObserveResult, await self.call(arguments, step_id=step_id))

    async def screenshot(self, *, step_id: str | None = None) -> ScreenshotResult:
        """Take a picture of what is in view. Raises as `call`."""
        return cast(ScreenshotResult, await self.call(ScreenshotArguments(), step_id=step_id))

    async def call(self, arguments: Arguments, *, step_id: str | None = None) -> Result:
        """Carry out one call, by whichever provider the policy comes to.

        Args:
            arguments: which call, and what it takes.
            step_id: of the step that it belongs to. By default the call is a step of its own; where the policy counts
                by step, together with its repetition.

        Raises:
            CallFailed: no provider did it, or the model is to decide what happens now.
        """
        async with self._one_at_a_time:
            if self.policy.scope == "request":
                return await self._routed(arguments, step_id or _new_id(), self._scopes.setdefault("", _Scope()))
            step = step_id or self._unfinished.pop(arguments.call, None) or _new_id()
            scope = self._scopes.setdefault(step, _Scope())
            try:
                return await self._routed(arguments, step, scope)
            finally:
                if step_id is None and scope.repeats:
                    self._unfinished[arguments.call] = step
                elif step_id is None:
                    del self._scopes[step]

    async def _routed(self, arguments: Arguments, step: str, scope: _Scope) -> Result:
        order = [provider for provider in self.providers if provider.name not in scope.disabled]
        if not arguments.portable and self._seen_by in order:
            order = order[order.index(self._seen_by) :]  # whose numbers they are
        before: tuple[Provider, Failure] | None = None
        for provider, other in zip(order, [*order[1:], None], strict=True):
            self._check_numbers(provider, arguments, before)
            attempt = self._new_attempt(provider, arguments, step, scope)
            try:
                if provider is not self._current and arguments.call != "navigate":
                    await self._follow(provider, attempt)
                result = await self._attempt(provider, attempt, arguments)
            except ProviderError as error:
                failure = self._react(attempt, error.failure, scope, other)
                before = (provider, failure)
                continue
            if scope.repeats.get(provider.name) == arguments.call:
                del scope.repeats[provider.name]
            self._current, self._url = provider, result.url
            if arguments.call == "observe":
                self._seen_by = provider
            return result
        raise AssertionError("the last provider's failure is raised")

    def _react(self, attempt: Attempt, failure: Failure, scope: _Scope, other: Provider | None) -> Failure:
        """Return the failure if another provider is to be asked.

        Raises:
            CallFailed: the model is to be told.
        """
        name = attempt.provider
        scope.repeats.pop(name, None)
        reaction = self.policy.reactions.get(failure.type, "retry")
        retries = self.policy.retries_for(name)
        if reaction == "tell":
            raise CallFailed(failure, name)
        if other is None:
            raise CallFailed(replace(failure, retryable=failure.retryable and retries > 0), name)
        scope.failures[name] += 1
        if reaction == "retry" and scope.failures[name] <= retries:
            scope.repeats[name] = attempt.action
            message = (
                f"{name} failed ({failure.type}): {failure.message} Make the same call once more; "
                f"if that fails too, {other.name} is asked instead."
            )
            raise CallFailed(Failure(failure.type, message, retryable=True), name)
        scope.disabled.add(name)
        why = f"{failure.type}: {failure.message}"
        if self.log is not None:
            self.log.disabled(attempt, why)
            self.log.fell_back(attempt, other.name, why)
        return failure

    def _check_numbers(self, provider: Provider, arguments: Arguments, before: tuple[Provider, Failure] | None) -> None:
        """Refuse an action on a number that another provider gave: here it is another element's, or nobody's."""
        if arguments.portable or (before is None and self._seen_by in (None, provider)):
            return
        why = f"{before[0].name} failed: {before[1].message} " if before else ""
        kind = before[1].type if before else "invalid_arguments"
        message = f"{why}{provider.name} has taken over, and elements have other numbers there: observe the page first."
        raise CallFailed(Failure(kind, message, retryable=False), provider.name)

    def _new_attempt(self, provider: Provider, arguments: Arguments, step: str, scope: _Scope) -> Attempt:
        logged = {} if self.log is None else loggable(arguments)
        return Attempt(
            self.trace_id, step, _new_id(), arguments.call, provider.name, logged,
            retry_used=scope.repeats.get(provider.name) == arguments.call,
            stagehand_disabled="stagehand" in scope.disabled,
        )  # fmt: skip

    async def _follow(self, provider: Provider, attempt: Attempt) -> None:
        """Bring a provider that takes over to the page where the last one was."""
        if self._url in ("", "about:blank"):
            return
        try:
            async with asyncio.timeout(self.policy.deadline):
                there = await provider.url()
        except Exception:  # it can't even start: the attempt that follows says why
            return
        if there != self._url:
            arguments = NavigateArguments(url=self._url)
            logged = {} if self.log is None else loggable(arguments)
            moving = replace(attempt, attempt_id=_new_id(), action="navigate", arguments=logged)
            await self._attempt(provider, moving, arguments)

    async def _attempt(self, provider: Provider, attempt: Attempt, arguments: Arguments) -> Any:
        """Make one attempt, and tell the log of it.

        Raises:
            ProviderError: it failed, whatever was raised.
        """
        log, start = self.log, time.perf_counter()
        if log is not None:
            log.started(attempt)
        try:
            try:
                async with asyncio.timeout(self.policy.deadline):
                    result = await getattr(provider, arguments.call)(arguments)
            except Exception as raised:
                error = raised if isinstance(raised, ProviderError) else self._foreseen(raised)
                took = time.perf_counter() - start
                if error.failure.type == "crashed":
                    error = await self._started_again(provider, error)
                if log is not None:
                    log.failed(attempt, took * 1000, error.failure, await self._evidence(provider, attempt, error))
                raise error from raised
            if log is not None:
                took = time.perf_counter() - start
                evidence = await self._evidence(provider, attempt, None)
                if result.status is not None:
                    evidence = replace(evidence or Evidence(result.url), status=result.status)
                log.succeeded(attempt, took * 1000, evidence)
            return result
        except asyncio.CancelledError:
            if log is not None:
                cancelled = Failure("cancelled", "The call was cancelled by its caller.", retryable=False)
                log.failed(attempt, (time.perf_counter() - start) * 1000, cancelled)
            raise

    def _foreseen(self, error: Exception) -> ProviderError:
        if isinstance(error, TimeoutError):
            return ProviderError("timeout", f"No result within {self.policy.deadline:g} s.")
        return ProviderError("unknown", reason(error))

    async def _started_again(self, provider: Provider, error: ProviderError) -> ProviderError:
        """Start a provider again before its crash is reported."""
        try:
            async with asyncio.timeout(self.policy.deadline):
                await provider.restart(self._url)
        except Exception as again:
            if isinstance(again, ProviderError) and again.failure.type == "crashed":  # it ends with its page
                message = f"{error.failure.message} {again.failure.message}"
                return ProviderError("crashed", message, retryable=again.failure.retryable)
            why = f"{error.failure.message} It could not be started again: {reason(again)}"
            return ProviderError("unavailable", why)
        if provider is self._seen_by:
            self._seen_by = None
        where = f" at {self._url}" if self._url else ""
        message = f"{error.failure.message} It was started again{where}; observe the page first."
        return ProviderError("crashed", message, retryable=error.failure.retryable)

    async def _evidence(self, provider: Provider, attempt: Attempt, error: ProviderError | None) -> Evidence | None:
        """Collect what the log keeps of the page; one that doesn't say (`wanted`) keeps all."""
        failed = error is not None
        wanted = getattr(self.log, "wanted", None)
        screenshot, snapshot = wanted(failed=failed) if wanted is not None else (True, failed)
        if not (screenshot or snapshot):
            return None
        if error is not None and error.failure.type in ("crashed", "unavailable"):
            return self._before_crash(provider, screenshot=screenshot)
        try:
            async with asyncio.timeout(EVIDENCE_BOUND):
                found = await provider.evidence(
                    failed=snapshot, nodes=error.nodes if error else (), screenshot=screenshot
                )
        except Exception as lost:
            return Evidence(cut=(f"No evidence could be collected: {reason(lost)}",))
        if found.screenshot is not None:
            self._pictures[provider.name] = attempt.attempt_id, found
        return found

    def _before_crash(self, provider: Provider, *, screenshot: bool) -> Evidence:
        """Return the last picture that was taken, for an attempt whose page is gone."""
        gone = "There was no page any more"
        if not screenshot or provider.name not in self._pictures:
            return Evidence(cut=(f"{gone}.",))
        id, seen = self._pictures[provider.name]
        return Evidence(seen.url, screenshot=seen.screenshot, cut=(f"{gone}: the picture is that of attempt {id}.",))


def loggable(arguments: Arguments) -> dict[str, Any]:
    """Return arguments as plain data, as an attempt has them."""
    data = arguments.model_dump(mode="json", exclude={"model"}, exclude_defaults=True)
    if isinstance(arguments, ActArguments) and arguments.action is not None:
        data["action"] = arguments.action.to_dict()
    if isinstance(arguments, ExtractArguments):
        data["schema"] = arguments.model.model_json_schema()
    return data


def _new_id() -> str:
    return secrets.token_hex(6)
