"""The provider `stagehand`: the package of that name on a full Chromium, with a model chosen by the caller.

Stagehand's browser extension observes and acts. Its prompts are answered by the callable `complete`, so nothing is sent
to a service. Everything runs on the environments' event loop.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import json
import socket
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

import psutil

from selfsurf.browser_env.actions import Navigate
from selfsurf.browser_env.attempts.attempt import Evidence
from selfsurf.browser_env.browser.browsers import find_browser
from selfsurf.browser_env.errors import BrowserNotFound
from selfsurf.browser_env.observe.find import as_outline, find_in
from selfsurf.browser_env.observe.masking import boxes_in_process
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
from selfsurf.browser_env.router.provider import Complete, Provider, ProviderError
from selfsurf.browser_env.router.providers.environment import on_loop
from selfsurf.browser_env.router.providers.page_connection import PageConnection
from selfsurf.browser_env.router.providers.stagehand_actions import (
    NODES_OF_A_FRAME,
    carry_out,
    element_id,
    outlined,
    suggested,
)
from selfsurf.browser_env.router.providers.whole_calls import WholeCalls
from selfsurf.browser_env.router.words import MODEL, asked, bare_json
from selfsurf.browser_env.safety.network import permission_for
from selfsurf.browser_env.safety.policy import Safety
from selfsurf.browser_env.session.access import WEBRTC_SWITCH, AccessGuard
from selfsurf.browser_env.text import one_line
from selfsurf.extras import how_to_install

if TYPE_CHECKING:
    from stagehand import Page, Stagehand

NAVIGATION_TIMEOUT = 15_000
"""Milliseconds for a page to load."""

CALL_TIMEOUT = 50_000
"""Milliseconds for `act`, `extract` and `observe`, including the model: less than the default deadline of an attempt.
"""

ENDING = 1.0
"""Seconds for the browser process to end after its connection was closed."""


class StagehandProvider(Provider):
    """A provider based on Stagehand.

    Args:
        complete: model that answers Stagehand's prompts; without a model only typed actions, outlines and screenshots
            work.
        safety: hosts that may be reached. Stagehand can't ask for confirmation or type secrets.
        executable: path of a full Chromium (the headless shell can't load extensions); None to search for one.
        headless: run without a window.

    Raises:
        ValueError: `safety` contains rules that can't be enforced here.
    """

    name = "stagehand"

    def __init__(
        self,
        complete: Complete | None = None,
        *,
        safety: Safety | None = None,
        executable: str | None = None,
        headless: bool = True,
    ) -> None:
        self._safety = safety or Safety()
        if self._safety.confirm is not None or self._safety.secrets:
            raise ValueError("Stagehand supports neither confirm nor secrets: leave out Stagehand, or these rules.")
        self._complete = complete
        self._executable = executable
        self._headless = headless
        self._stagehand: Stagehand | None = None
        self._guard: AccessGuard | None = None
        self._port = 0
        self._watcher: PageConnection | None = None
        self._watched = ""
        self._paths: dict[int, str] = {}
        self._process: psutil.Process | None = None
        """Browser process, which would outlive this process unless it is killed."""
        self._calls = WholeCalls()
        self._asking: asyncio.Future[Any] | None = None
        """Pending answer of the model; None if there is none."""
        self._unanswered: ProviderError | None = None
        """Reason why the model did not answer in the current call."""

    async def navigate(self, arguments: NavigateArguments) -> NavigateResult:
        """Go to a URL and wait until the page has loaded."""
        return await self._run(self._navigate(arguments.url))

    async def act(self, arguments: ActArguments) -> ActResult:
        """Perform one action; element IDs are those of the last `observe`."""
        return await self._run(self._act(arguments))

    async def extract(self, arguments: ExtractArguments) -> ExtractResult:
        """Read data from the page with Stagehand's `extract`."""
        return await self._run(self._extract(arguments))

    async def observe(self, arguments: ObserveArguments) -> ObserveResult:
        """Return the page's outline, and for an instruction Stagehand's suggested actions."""
        seen: ObserveResult = await self._run(self._observe(arguments.instruction))
        if not arguments.find.strip():
            return seen
        found = find_in(seen.outline, arguments.find)
        return seen.model_copy(update={"outline": as_outline(found, arguments.find)})

    async def screenshot(self, arguments: ScreenshotArguments) -> ScreenshotResult:
        """Take a screenshot of the viewport."""
        return await self._run(self._screenshot())

    async def url(self) -> str:
        """Return the address of the active page."""
        return await self._run(self._address())

    async def evidence(self, *, failed: bool, nodes: Sequence[Any] = (), screenshot: bool = True) -> Evidence:
        """Return evidence of the page; `nodes` are element IDs."""
        if self._stagehand is None:
            return Evidence(cut=("There is no page.",))
        return await on_loop(self._evidence(failed=failed, nodes=nodes, screenshot=screenshot))

    async def restart(self, url: str) -> None:
        """Start a new browser, and navigate to the URL if there is one."""
        await self.close()
        await self._run(self._navigate(url) if url else self._page())

    async def close(self) -> None:
        """Cancel a call in progress, and end the browser."""
        self._calls.cancel()
        await on_loop(self._close())

    async def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine on the loop after any cancelled call is over; convert Stagehand's errors to failures."""
        try:
            await self._calls.ended(lambda: on_loop(self._hurry()))
        except BaseException:
            work.close()
            raise
        self._unanswered = None
        try:
            return await self._calls.run(on_loop(work))
        except Exception as error:
            if self._unanswered is not None:
                raise self._unanswered from error
            if isinstance(error, (ProviderError, TimeoutError)):
                raise
            text = short(error)
            if self._stagehand is not None and await self._is_gone(text):
                raise ProviderError("crashed", f"Stagehand's browser is gone ({text}).") from error
            if "timed out" in text.lower() or "timeout" in text.lower():
                raise ProviderError("timeout", f"{text}.") from error
            raise ProviderError("unknown", f"{text}.") from error

    async def _hurry(self) -> None:
        """Stop waiting for the model in a cancelled call."""
        if self._asking is not None:
            self._asking.cancel()

    async def _is_gone(self, text: str) -> bool:
        """Whether the browser has ended. If its connection was closed, wait briefly for its end."""
        end = time.monotonic() + (ENDING if "closed" in text else 0.0)
        while self._process is not None and _lives(self._process):
            if time.monotonic() >= end:
                return False
            await asyncio.sleep(0.02)
        return True

    async def _started(self) -> Stagehand:
        if self._stagehand is not None:
            return self._stagehand
        try:
            from stagehand import Stagehand, local_browser

            executable = self._executable or find_browser(headless=False)
        except ModuleNotFoundError as error:
            missing = f"Stagehand needs the package {error.name}: {how_to_install('stagehand')}."
            raise ProviderError("unavailable", missing) from error
        except (ImportError, BrowserNotFound) as error:
            raise ProviderError("unavailable", f"Stagehand can't be started: {error}") from error
        self._port, options = _free_port(), {}
        self._guard = AccessGuard(self._safety, None, {}, guarded=True)
        proxy = (await self._guard.proxied({})).get("proxy")
        if proxy:  # the extension connects to the browser's own port
            bypass = ";".join([*proxy["bypass"].split(","), f"127.0.0.1:{self._port}"])
            options = {"proxy_server": proxy["server"], "proxy_bypass": bypass}
        try:
            browser = await local_browser.launch(
                executable_path=executable, headless=self._headless, port=self._port,
                viewport_width=1280, viewport_height=720, args=["--disable-gpu", WEBRTC_SWITCH], **options,
            )  # fmt: skip
            self._process = _process_of(self._port)
            if self._process is not None:
                _running.add(self._process)
            self._stagehand = await Stagehand.create(browser=browser, model=self._generate, logging={"level": "off"})
        except BaseException as error:
            await self._close()
            if not isinstance(error, Exception):  # cancelled
                raise
            raise ProviderError("unavailable", f"Stagehand could not be started: {short(error)}.") from error
        return self._stagehand

    async def _page(self) -> Page:
        stagehand = await self._started()
        return await stagehand.browser.context.active_page() or await stagehand.browser.context.new_page()

    async def _address(self) -> str:
        return str(await (await self._page()).url())

    async def _navigate(self, url: str) -> NavigateResult:
        page = await self._page()
        assert self._guard is not None
        if self._guard.proxy is not None and url.startswith(("http:", "https:")):
            why = await self._guard.proxy.refusal_of(url)
            if why:
                message = f"{url} was not opened: {why}."
                raise ProviderError("refused", message + permission_for(message))
        if not url.startswith(("http:", "https:", "about:", "data:")):
            raise ProviderError("refused", f"{url!r} is not an address that can be opened here.")
        self._paths.clear()
        try:
            await page.goto(url, wait_until="load", timeout=NAVIGATION_TIMEOUT)
        except Exception as error:
            if type(error).__name__ != "RPCError" or "net::" not in str(error):
                raise
            raise ProviderError("navigation", f"The page did not load: {short(error)}.") from error
        reached = await page.url()
        if reached.startswith("chrome-error:"):
            raise ProviderError("navigation", f"The page did not load: {url} could not be reached.")
        return NavigateResult(url=reached, title=await page.title())

    async def _act(self, arguments: ActArguments) -> ActResult:
        if isinstance(arguments.action, Navigate):
            reached = await self._navigate(arguments.action.url)
            return ActResult(url=reached.url, title=reached.title, done=arguments.action.to_json())
        page = await self._page()
        stagehand = await self._started()
        if arguments.action is not None:
            id = getattr(arguments.action, "id", None)
            if id is not None and id not in self._paths:
                raise ProviderError("not_found", f"There is no element {id}; observe the page first.")
            done = await carry_out(stagehand, page, arguments.action, self._paths, CALL_TIMEOUT)
        else:
            self._needed()
            result = await stagehand.act(arguments.instruction, page=page, timeout=float(CALL_TIMEOUT))
            if not result.data.success:
                raise ProviderError("not_found", f"{result.data.message}.")
            done = result.data.action_description or result.data.message
        page = await self._page()  # the action may have opened another page
        return ActResult(url=await page.url(), title=await page.title(), done=done)

    async def _extract(self, arguments: ExtractArguments) -> ExtractResult:
        self._needed()
        page, stagehand = await self._page(), await self._started()
        found = await stagehand.extract(arguments.instruction, arguments.model, page=page, timeout=float(CALL_TIMEOUT))
        return ExtractResult(url=await page.url(), title=await page.title(), data=found.data)

    async def _observe(self, instruction: str) -> ObserveResult:
        page, stagehand = await self._page(), await self._started()
        actions: tuple[Any, ...] = ()
        snapshot = await page.snapshot()
        self._paths = {element_id(id): path for id, path in snapshot.xpath_map.items()}
        if instruction and self._complete is not None:
            seen = await stagehand.observe(instruction, page=page, timeout=float(CALL_TIMEOUT))
            actions = suggested(seen.data, self._paths)
        outline = outlined(snapshot.formatted_tree)
        return ObserveResult(url=await page.url(), title=await page.title(), outline=outline, actions=actions)

    async def _screenshot(self) -> ScreenshotResult:
        page = await self._page()
        return ScreenshotResult(url=await page.url(), title=await page.title(), png=await page.screenshot(type="png"))

    def _needed(self) -> None:
        if self._complete is None:
            raise ProviderError("invalid_arguments", f"Instructions in words need a model, and there is none.{MODEL}")

    async def _generate(self, params: Any) -> Any:
        """Answer one of Stagehand's prompts with the provider's model."""
        from stagehand import LLMMessageGenerateResult, LLMStructuredGenerateResult

        # registered in any case, because Stagehand refuses even typed clicks without a model
        if self._complete is None:
            raise ValueError("Stagehand was given no model")
        given = params.model_dump(mode="json", by_alias=True)
        messages = [{"role": "system", "text": given["system_prompt"]}] if given.get("system_prompt") else []
        for message in given["messages"]:
            content = message["content"]
            blocks = content if isinstance(content, list) else [content]
            text = "\n".join(block["text"] for block in blocks if block.get("type") == "text")
            messages.append({"role": message["role"], "text": text})
        schema = (given.get("response_format") or {}).get("schema")
        reply = await self._asked(messages, schema)
        content = {"type": "text", "text": reply}
        if schema is None:
            return LLMMessageGenerateResult.model_validate(
                {"role": "assistant", "content": content, "output_format": "text"}
            )
        value = json.loads(bare_json(reply))
        return LLMStructuredGenerateResult.model_validate(
            {"role": "assistant", "content": content, "output_format": "json_schema", "structured_content": value}
        )

    async def _asked(self, messages: Sequence[Any], schema: Any) -> str:
        """Ask the model and keep its error, which Stagehand would report only as an element not found."""
        assert self._complete is not None
        self._asking = asking = asyncio.ensure_future(asked(self._complete, messages, schema))
        try:
            await asyncio.wait({asking})
            if asking.cancelled():  # by `_hurry`
                raise ProviderError("model", "The call was cancelled before the model had answered.")
            return str(asking.result())
        except ProviderError as error:
            self._unanswered = error
            raise
        finally:
            asking.cancel()

    async def _evidence(self, *, failed: bool, nodes: Sequence[Any], screenshot: bool) -> Evidence:
        page = await self._page()
        protocol: Any = await self._connection(page.page_id)
        sight = Sight(
            protocol, lambda: page.screenshot(type="png"), lambda: boxes_in_process(protocol, (), private=True)
        )
        sight.nodes = [id for id in nodes if isinstance(id, int) and id < NODES_OF_A_FRAME]
        return await collect(sight, url=await page.url(), failed=failed, screenshot=screenshot)

    async def _connection(self, target: str) -> PageConnection:
        """Return a separate connection to a page, because Stagehand's lacks the commands for evidence."""
        if self._watched != target or self._watcher is None:
            if self._watcher is not None:
                await self._watcher.close()
            self._watcher, self._watched = await PageConnection.open(self._port, target), target
        return self._watcher

    async def _close(self) -> None:
        stagehand, self._stagehand = self._stagehand, None
        watcher, self._watcher = self._watcher, None
        guard, self._guard = self._guard, None
        ways: list[Callable[[], Any]] = [] if watcher is None else [watcher.close]
        if stagehand is not None:
            ways += [stagehand.close, stagehand.browser.close]
        if guard is not None:
            ways.append(guard.close)
        for way in ways:
            with contextlib.suppress(Exception):  # the resource is already gone
                async with asyncio.timeout(5):
                    await way()
        process, self._process = self._process or (_process_of(self._port) if self._port else None), None
        if process is not None:
            _end(process)


def _process_of(port: int) -> psutil.Process | None:
    """Return the browser process that listens on a port; None if there is none."""
    switch = f"--remote-debugging-port={port}"
    for process in psutil.Process().children():
        with contextlib.suppress(psutil.Error):
            if switch in process.cmdline():
                return process
    return None


def _lives(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


_running: set[psutil.Process] = set()
"""Browser processes to kill when this process exits."""


def _end(process: psutil.Process) -> None:
    _running.discard(process)
    with contextlib.suppress(psutil.Error):
        process.kill()


@atexit.register
def _end_all() -> None:
    for process in list(_running):
        _end(process)


def short(error: BaseException) -> str:
    """Return an error's message in one line, because some of Stagehand's span many lines."""
    return one_line(str(error))[:300]


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
