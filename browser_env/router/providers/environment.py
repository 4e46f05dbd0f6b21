"""Base of the providers built on this project's environment: each call is a step, or an observation of the page."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from selfsurf.browser_env.actions import Action, AskUser, Finish, Infeasible, Message, Navigate, parse_action
from selfsurf.browser_env.attempts.attempt import Evidence
from selfsurf.browser_env.browser.runtime import runtime
from selfsurf.browser_env.environment.env import AsyncBrowserEnv
from selfsurf.browser_env.environment.step_results import StepResult
from selfsurf.browser_env.errors import ActionError, BrowserNotFound, EnvError, ErrorType
from selfsurf.browser_env.observation import Observation, page_status
from selfsurf.browser_env.observe.delta import make_delta
from selfsurf.browser_env.observe.find import AROUND, MOST, as_outline
from selfsurf.browser_env.observe.masking import secret_boxes
from selfsurf.browser_env.observe.screenshot import encode_png
from selfsurf.browser_env.outcome import Outcome
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
from selfsurf.browser_env.router.evidence import Sight, collect
from selfsurf.browser_env.router.provider import Complete, Decide, Provider, ProviderError
from selfsurf.browser_env.router.providers.whole_calls import WholeCalls
from selfsurf.browser_env.router.words import asked, needed, read_into
from selfsurf.browser_env.safety.network import permission_for
from selfsurf.browser_env.text import visible

T = TypeVar("T")

_NO_PAGE = "The page could not be opened: the browser shows an error of its own. Navigate to another address."
"""Outline returned while the browser shows its own error page after a failed navigation."""


class EnvironmentProvider(Provider):
    """A provider based on an environment.

    Args:
        env: an environment that has been reset; the provider doesn't close it. None to create one.
        decide: policy that performs instructions in words.
        complete: model that reads a page into a type.
    """

    def __init__(
        self, env: AsyncBrowserEnv | None = None, *, decide: Decide | None = None, complete: Complete | None = None
    ) -> None:
        self.last: StepResult | None = None
        """Result of the last step: observation, reward, terminated, truncated, info."""
        self.on_step: Callable[[Observation, Action, StepResult], None] | None = None
        """Callback after each step, with the observation before the step, on the environments' event loop."""
        self.change_limit = 0
        """Maximum characters of the page's change in the result of an action; 0 for results without it."""
        self._change = ""
        self._env = env
        self._own = env is None
        self._ready = False
        self._calls = WholeCalls()
        self._decide = decide
        self._complete = complete

    async def make(self) -> AsyncBrowserEnv:
        """Create the provider's own environment, without resetting it."""
        raise NotImplementedError

    async def _started(self) -> AsyncBrowserEnv:
        """Return the environment, ready for a call: created and reset if it is the provider's own, and idle.

        Raises:
            ProviderError: the environment can't be started, or its page was lost when a call was cancelled.
        """
        if self._env is None:
            try:
                self._env = await self.make()
            except (BrowserNotFound, EnvError) as error:
                raise ProviderError("unavailable", str(error)) from error
        lost = await self._ended(self._env)
        if self._own and (lost or (self._ready and self._env.core.session is None)):
            self._ready = False
            raise ProviderError("crashed", "The last call was cancelled, and its page was lost.")
        if not self._ready:
            if self._own:
                try:
                    await self._calls.run(self._env.reset())
                except EnvError as error:
                    raise ProviderError("unavailable", str(error)) from error
            self._ready = True
        return self._env

    async def _ended(self, env: AsyncBrowserEnv) -> bool:
        """Wait until a cancelled call is over; return whether its page was lost."""

        async def hurry() -> None:
            if env.core.session is not None:
                await on_loop(env.core.session.active.hurry())

        if (work := await self._calls.ended(hurry)) is None:
            return False
        error = None if work.cancelled() else work.exception()
        return work.cancelled() or (isinstance(error, ProviderError) and error.failure.type == "crashed")

    async def navigate(self, arguments: NavigateArguments) -> NavigateResult:
        """Go to a URL, within the limits of the environment's `Safety`."""
        seen = await self._step(Navigate(url=arguments.url))
        return NavigateResult(
            url=seen["url"], title=seen["title"], status=page_status(seen["events"]), change=self._change
        )

    async def act(self, arguments: ActArguments) -> ActResult:
        """Perform one action as a step of the environment."""
        action: Any = arguments.action
        if action is None:
            action = await self._decided(arguments.instruction)
        if isinstance(action, Infeasible):
            raise ProviderError("not_found", action.reason or "The policy says that this can't be done here.")
        if isinstance(action, Finish) and arguments.action is None:
            seen = await self._look()
            return ActResult(
                url=seen["url"], title=seen["title"], done="nothing: the policy says that the task is done"
            )
        if isinstance(action, Finish | Message | AskUser):
            raise ProviderError("invalid_arguments", f"The action {action.name} does not act on a page.")
        seen = await self._step(action)
        return ActResult.model_construct(
            url=seen["url"], title=visible(seen["title"]), status=page_status(seen["events"]),
            done=seen["last_action"], events=seen["events"], change=self._change,
        )  # fmt: skip

    async def extract(self, arguments: ExtractArguments) -> ExtractResult:
        """Read data from the page's outline with the language model."""
        seen = await self._look()
        page = f"{visible(seen['title'])} ({seen['url']})\n{seen['dom']}"
        data = await read_into(self._complete, arguments.instruction, page, arguments.model)
        return ExtractResult(url=seen["url"], title=seen["title"], data=data)

    async def observe(self, arguments: ObserveArguments) -> ObserveResult:
        """Return the page's outline and elements, and for an instruction the policy's action."""
        seen = await self._look()
        if arguments.find.strip() and seen["dom"] != _NO_PAGE:
            env = await self._started()
            found = await self._guarded(env.core.find(arguments.find, AROUND, MOST))
            ids = {one.id for one in found}
            elements = tuple(one for one in seen["elements"] if one["id"] in ids)
            seen = {**seen, "elements": elements, "dom": as_outline(found, arguments.find)}
        actions: tuple[Any, ...] = ()
        if arguments.instruction and self._decide is not None:
            actions = (await self._decided(arguments.instruction, seen),)
        return ObserveResult(
            url=seen["url"], title=seen["title"], outline=seen["dom"], actions=actions,
            elements=tuple(dict(element) for element in seen["elements"]),
        )  # fmt: skip

    async def screenshot(self, arguments: ScreenshotArguments) -> ScreenshotResult:
        """Take a screenshot of the viewport, with secrets painted over."""
        env = await self._started()
        view = await self._guarded(env.core.glance())
        if view.screenshot is None:
            raise ProviderError("unknown", "There is no screenshot of this page.")
        url, title = env.core.vault.redact((view.url, view.title))
        return ScreenshotResult(url=url, title=title, png=encode_png(view.screenshot))

    async def url(self) -> str:
        """Return the address of the active tab."""
        env = await self._started()
        return "" if env.core.session is None else str(env.core.session.active.page.url)

    async def evidence(self, *, failed: bool, nodes: Sequence[Any] = (), screenshot: bool = True) -> Evidence:
        """Return evidence of the page; `nodes` are element IDs."""
        if self._env is None or self._env.core.session is None or not self._ready:
            return Evidence(cut=("There is no page.",))
        return await on_loop(self._evidence(self._env, failed=failed, nodes=nodes, screenshot=screenshot))

    async def _evidence(
        self, env: AsyncBrowserEnv, *, failed: bool, nodes: Sequence[Any], screenshot: bool
    ) -> Evidence:
        core = env.core
        assert core.session is not None
        tab = core.session.active
        sight = Sight(tab.protocol, tab.screenshot, lambda: secret_boxes(tab, core.vault.patterns, private=True))
        if failed:
            ids = [await self._backend_id(env, id) for id in nodes if id not in core.foreign]
            sight.nodes = [id for id in ids if id is not None]
        return await collect(sight, url=tab.page.url, failed=failed, screenshot=screenshot)

    async def _backend_id(self, env: AsyncBrowserEnv, id: int) -> int | None:
        assert env.core.session is not None
        tab = env.core.session.active
        try:
            async with asyncio.timeout(0.5):
                node = await tab.call("node", id=id)
                described = await tab.protocol.send("DOM.describeNode", {"objectId": node["objectId"]})
                return int(described["node"]["backendNodeId"])
        except Exception:  # the element is gone
            return None

    async def restart(self, url: str) -> None:
        """Restart the provider's own environment. A given environment is not restarted: its run has ended."""
        self._ready = False
        if not self._own:
            raise ProviderError("crashed", "This ends the run.", retryable=False)
        if self._env is not None:
            env = await self._started()
            if url:
                await self._calls.run(env.step(Navigate(url=url)))

    async def close(self) -> None:
        """Cancel a call in progress, and close the provider's own environment."""
        self._calls.cancel()
        if self._own and self._env is not None:
            await self._env.close()
            self._env, self._ready = None, False

    async def _step(self, action: Action) -> Observation:
        """Take a step.

        Raises:
            ProviderError: the step could not be performed.
        """
        env = await self._started()
        return await self._calls.run(self._stepped(env, action))

    async def _stepped(self, env: AsyncBrowserEnv, action: Action) -> Observation:
        before = env.core.observation
        self.last = observation, _, terminated, truncated, info = await env.step(action)
        if before is not None and "waiting" not in info:
            self._change = change_of(before, observation, self.change_limit)
            if self.on_step is not None:
                self.on_step(before, action, self.last)
        if info["outcome"] == Outcome.ENV_ERROR:
            why = str(info["outcome_detail"])
            self._ready = not self._own
            if info.get("fault") == "task":
                raise ProviderError("unknown", f"{why}.", retryable=False)
            raise ProviderError(self._kind_of(info.get("fault")), f"{why}.")
        if "waiting" in info:
            raise ProviderError("cancelled", f"A person has to decide first: {info['waiting']['text']}")
        if observation["last_error"]:
            id = getattr(action, "id", None)
            over, kind = terminated or truncated, env.core.failed_as or "unknown"
            nodes = () if id is None else (id,)
            why = observation["last_error"] + permission_for(observation["last_error"])
            raise ProviderError(kind, why, retryable=False if over else None, nodes=nodes)
        return observation

    async def _look(self) -> Observation:
        env = await self._started()
        seen = await self._guarded(env.core.witness())
        return {**seen, "dom": _NO_PAGE} if seen["url"].startswith("chrome-error:") else seen

    async def _decided(self, instruction: str, seen: Observation | None = None) -> Any:
        decide = needed(self._decide)
        told = await asked(decide, instruction, seen or await self._look())
        if told is None:
            raise ProviderError("not_found", f"Nothing on the page matches: {instruction}")
        try:
            return parse_action(told)
        except ActionError as error:
            raise ProviderError("unknown", f"The policy returned an invalid action: {error}") from error

    async def _guarded(self, work: Coroutine[Any, Any, T]) -> T:
        """Await an observation of the page on the environments' loop, with its errors converted to `ProviderError`."""

        async def look() -> T:
            return await on_loop(work)

        try:
            return await self._calls.run(look())
        except Exception as raised:
            error = raised
            if self._env is not None and not isinstance(raised, EnvError):
                error = await on_loop(self._env.core.explained(raised))
            if not isinstance(error, EnvError):
                raise
            self._ready = not self._own
            raise ProviderError(self._kind_of(error.fault), f"{error}.") from raised

    def _kind_of(self, fault: str | None) -> ErrorType:
        """Return the type of an environment failure: `crashed`, or `timeout` if late and the page still exists."""
        there = self._env is not None and self._env.core.session is not None
        return "timeout" if there and fault == "timeout" else "crashed"


def change_of(before: Observation, after: Observation, limit: int) -> str:
    """Return the change between two observations' outlines (`observe.delta`), of at most `limit` characters."""
    if not limit:
        return ""
    change = make_delta(before["dom"], after["dom"], new_page=before["url"] != after["url"])
    if len(change) <= limit:
        return change
    return change[:limit].rpartition("\n")[0] + "\nThe rest is left out: observe the page."


async def on_loop(work: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine on the environments' own event loop."""
    loop = runtime().loop
    if asyncio.get_running_loop() is loop:
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))
