"""Sources of a session's browser context, which open and close contexts.

A source uses the browser that the process's environments share, a separate browser with a profile folder, or a running
browser that somebody else started; `detached.py` has a source whose browser outlives the process.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from selfsurf.browser_env.browser.page_script import PROBE, read_script
from selfsurf.browser_env.browser.profile_lock import ProfileLock, kill
from selfsurf.browser_env.browser.runtime import BrowserSpec, ContextSlot, death_of, runtime
from selfsurf.browser_env.browser.stderr_capture import StderrCapture
from selfsurf.browser_env.browser.stealth import stealth_identity
from selfsurf.browser_env.errors import PAGE_CRASHED
from selfsurf.browser_env.session.har import BinaryBodies, new_recording, replay
from selfsurf.browser_env.session.options import SessionOptions
from selfsurf.browser_env.session.storage import cookies_of, read_state, restore
from selfsurf.browser_env.task import Viewport

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Page

    from selfsurf.browser_env.session.tab import Tab


LATE_BOUND = 30.0
"""Seconds for a context to close in a responsive browser; after that the browser is closed with all its contexts."""

_closing: set[asyncio.Task[None]] = set()


def _drop_empty(recording: Path) -> None:
    if recording.exists() and recording.stat().st_size == 0:
        recording.unlink()  # the context died before Playwright could write the recording


async def _close_late(closing: asyncio.Future[None], spec: BrowserSpec, browser: Browser) -> None:
    await asyncio.wait({closing}, timeout=LATE_BOUND)
    if not closing.done():
        closing.cancel()
        await runtime().discard(spec, browser)


async def _answers(browser: Browser) -> bool:
    """Whether the browser still answers."""
    try:
        async with asyncio.timeout(3):
            protocol = await browser.new_browser_cdp_session()
            await protocol.send("Browser.getVersion")
            await protocol.detach()
    except Exception:
        return False
    return True


class ContextSource:
    """Source of contexts in the browsers that environments with an equal `spec` share. Opens one context at a time."""

    def __init__(self, spec: BrowserSpec, options: SessionOptions) -> None:
        self.spec = spec
        self.options = options
        self.recording: Path | None = None
        """File to which the current context's traffic is recorded; None without a recording."""
        self._bodies: BinaryBodies | None = None
        self._identity: dict[str, Any] | None = None
        self._session_storage: dict[str, Any] = {}
        """Session storage of the storage state, by origin."""
        self._rooms: WeakKeyDictionary[Any, ContextSlot] = WeakKeyDictionary()
        """Places in browsers (`ContextSlot`) of the contexts that are still open."""
        self.closing: asyncio.Future[None] | None = None
        """Future that is done when the last context is closed; None until its closing has begun."""
        self.attached = False
        """Whether the browser has tabs of an episode that another process started."""

    embedded = False
    """Whether the browser is part of an application, whose first page is taken over."""

    @property
    def probe(self) -> str:
        """Name of the event that asks pages for listeners (`install_listeners`)."""
        return PROBE

    @property
    def gate_port(self) -> int:
        """Port of the proxy that enforces network rules; 0 for any free port."""
        return 0

    @property
    def shared_with_people(self) -> bool:
        """Whether the context has tabs that don't belong to the environment."""
        return self.options.use_default_context

    async def wait_closed(self) -> None:
        """Wait until the last context is closed, because it may use what the next one needs, such as a profile."""
        closing = self.closing
        if closing is not None and closing.get_loop() is asyncio.get_running_loop():  # another loop's closing has ended
            await asyncio.wait({closing})

    async def give_up(self) -> None:
        """End a browser that another process left and that can't be attached to. The next `open` starts another."""

    async def open(self, arguments: Mapping[str, Any]) -> BrowserContext:
        """Open a context with these arguments of Playwright's `Browser.new_context`.

        Raises:
            EnvError: no browser could be started.
        """
        room = runtime().room(self.spec)
        self.spec = room.spec
        try:
            browser = await runtime().browser(room.spec)
            context = await browser.new_context(**await self._complete(arguments))
        except BaseException:
            runtime().leave(room)
            raise
        self._rooms[context] = room
        return context

    async def prepare(self, context: BrowserContext, note: Callable[[str], None]) -> None:
        """Set up what Playwright's arguments don't cover, before the first page. `note` takes event texts."""
        if self.options.cookies:
            await context.add_cookies(cookies_of(self.options.cookies))  # type: ignore[arg-type]
        if self.options.stealth:
            await context.add_init_script(read_script("stealth"))
        if self.recording is not None:
            self._bodies = BinaryBodies(context)
        if self.options.replay_har is not None:
            await replay(context, Path(self.options.replay_har), note)

    async def first_page(self, context: BrowserContext) -> Page:
        """Return a new, blank page with the session storage of the storage state."""
        page = await context.new_page()
        if self._session_storage:
            await restore(page, self._session_storage)
        return page

    async def attach(self, tab: Tab, viewport: Viewport) -> None:
        """Set up a new tab. `viewport` is its size."""
        if self._identity is not None:  # Playwright sets the user agent, but not the brands that go with it
            await tab.protocol.send("Emulation.setUserAgentOverride", self._identity)
        if self.shared_with_people:  # a person's tab has the size of its window
            await tab.page.set_viewport_size({"width": viewport[0], "height": viewport[1]})

    async def close(self, context: BrowserContext, pages: Sequence[Page]) -> None:
        """Close the context. `pages` are the pages that the environment opened in it."""
        recording, self.recording = self.recording, None
        bodies, self._bodies = self._bodies, None
        room = self._rooms.pop(context, None)
        try:
            await context.close()
        finally:
            if room is not None:
                runtime().leave(room)
        if recording is not None:
            _drop_empty(recording)
            if bodies is not None:
                await asyncio.to_thread(bodies.complete, recording)

    async def kill(self, context: BrowserContext, closing: asyncio.Future[None]) -> None:
        """Forcibly dispose of a context that could not be closed.

        Args:
            context: the context.
            closing: its unfinished `close`, which may continue.
        """
        browser, spec = context.browser, self.spec
        if browser is not None and browser.is_connected():
            if await _answers(browser):  # other environments use the browser: only this context is slow
                _closing.add(task := asyncio.ensure_future(_close_late(closing, spec, browser)))
                task.add_done_callback(_closing.discard)
            else:
                closing.cancel()
                await runtime().discard(spec, browser)

    async def death(self) -> str:
        """Return a message if the browser has ended, with its last errors; empty while it runs, or if unknown."""
        return await runtime().death(self.spec)

    async def behind(self, error: str) -> str:
        """Return the cause of an error if a page or the browser has ended; otherwise an empty text."""
        if "crashed" in error or "hangs" in error:
            return runtime().outgrown(self.spec) or (PAGE_CRASHED if "Target crashed" in error else "")
        return await self.death() if "closed" in error else ""

    async def _complete(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        complete = dict(arguments)
        if complete.get("storage_state"):
            complete["storage_state"], self._session_storage = read_state(complete["storage_state"])
        if self.options.stealth and "user_agent" not in complete:
            path = await runtime().executable(self.spec)
            self._identity = await stealth_identity(path, complete.get("locale") or "en-US")
            complete["user_agent"] = self._identity["userAgent"]
        if self.options.record_har is not None:
            self.recording = new_recording(Path(self.options.record_har))
            complete["record_har_path"] = self.recording
        return complete


class ProfileSource(ContextSource):
    """Source of a separate browser with a profile folder, restarted for every session.

    Session cookies are carried over, since the environment is one user who stays logged in.
    """

    def __init__(self, spec: BrowserSpec, options: SessionOptions) -> None:
        super().__init__(spec, options)
        assert options.profile is not None
        self._lock = ProfileLock(Path(options.profile).expanduser().resolve())
        self._pid: int | None = None
        self._browser: Browser | None = None
        self._words: StderrCapture | None = None
        self._cookies: list[Any] = []

    async def open(self, arguments: Mapping[str, Any]) -> BrowserContext:
        """Start a browser on the profile and return its context.

        Raises:
            EnvError: the profile is in use, or the browser failed to start.
        """
        await self._lock.acquire()
        context: BrowserContext | None = None
        try:
            complete = await self._complete(arguments)
            context, self._words = await runtime().launch_persistent(self.spec, self._lock.folder, complete)
            self._browser = context.browser
            self._pid = await _browser_process(context)
            self._lock.note_browser(self._pid)
            if self._cookies:
                await context.add_cookies(self._cookies)
        except BaseException:
            if context is not None:
                with contextlib.suppress(Exception):
                    await asyncio.wait_for(context.close(), 5)
            self._lock.release()
            raise
        return context

    async def death(self) -> str:
        """Return a message if the profile's browser has ended, with its last errors; empty while it runs."""
        return "" if self._browser is None else await death_of(self._browser, self._words)

    async def close(self, context: BrowserContext, pages: Sequence[Page]) -> None:
        """Close the browser and release the profile folder."""
        self._cookies = [cookie for cookie in await context.cookies() if cookie.get("expires", -1) == -1]
        await super().close(context, pages)
        self._lock.release()

    async def kill(self, context: BrowserContext, closing: asyncio.Future[None]) -> None:
        """Kill the browser process and release the profile folder."""
        if self._pid is not None:
            kill(self._pid)
        with contextlib.suppress(Exception):
            await asyncio.wait_for(closing, 5)
        self._lock.release()


class RemoteSource(ContextSource):
    """Source of contexts in somebody else's running browser: connects for every session and leaves it running."""

    _browser: Browser | None = None

    async def open(self, arguments: Mapping[str, Any]) -> BrowserContext:
        """Connect to the browser and return a new context, or its default context with `use_default_context`.

        Raises:
            EnvError: no browser answers at the address.
        """
        assert self.options.cdp_url is not None
        default = self.options.use_default_context
        self._browser = await runtime().connect(self.options.cdp_url, keep_defaults=default)
        try:
            if default:
                return self._browser.contexts[0]
            return await self._browser.new_context(**await self._complete(arguments))
        except BaseException:
            await self._disconnect()
            raise

    async def death(self) -> str:
        """Return an empty text, since the end of somebody else's browser can't be explained."""
        return ""

    async def close(self, context: BrowserContext, pages: Sequence[Page]) -> None:
        """Close our context, or our tabs in the default context, and disconnect."""
        if self.shared_with_people:
            await asyncio.gather(*(page.close() for page in pages))
        else:
            await super().close(context, pages)
        await self._disconnect()

    async def kill(self, context: BrowserContext, closing: asyncio.Future[None]) -> None:
        """Disconnect, which makes the browser drop our context."""
        closing.cancel()
        await self._disconnect()

    async def _disconnect(self) -> None:
        browser, self._browser = self._browser, None
        if browser is not None:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(browser.close(), 5)


async def _browser_process(context: BrowserContext) -> int:
    assert context.browser is not None
    protocol = await context.browser.new_browser_cdp_session()
    info = await protocol.send("SystemInfo.getProcessInfo")
    await protocol.detach()
    return next(int(process["id"]) for process in info["processInfo"] if process["type"] == "browser")
