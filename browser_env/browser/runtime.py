"""One background event loop and few browsers per process, shared by all of its environments.

Starts browsers, creates contexts and stops everything at exit; pages are out of scope. Safe to use from several
threads, inside a running asyncio loop, and after a fork (the child starts its own).
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import itertools
import logging
import math
import os
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from selfsurf.browser_env.browser.browsers import FREE_FRAMES, SWITCHES, can_hold_time, find_browser, merged
from selfsurf.browser_env.browser.memory import kill_large_renderers
from selfsurf.browser_env.browser.stderr_capture import StderrCapture
from selfsurf.browser_env.errors import EnvError
from selfsurf.browser_env.patience import stretched
from selfsurf.browser_env.text import first_line

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Playwright

    from selfsurf.browser_env.browser.devtools import DevTools

_log = logging.getLogger(__name__)

T = TypeVar("T")

LAUNCH_TIMEOUT = 60.0
"""Seconds that a browser may take to start, for example from a cold disk."""

DEATH_LOOKS = 10
"""Number of checks, 50 ms apart, whether a browser has ended: an error may arrive before the disconnection."""

JUST_NOW = 5.0
"""Seconds after which a crash is no longer blamed on a page that was killed for its memory."""

CONTEXTS = 32
"""Maximum number of contexts in a browser; more start another browser. With 64, on two cores, two browsers make 9 to
37% more steps a second than one and need as much memory; with 16 they are no faster."""

UNUSED = 30.0
"""Seconds after which an additional browser without contexts is ended."""

CONNECT_TIMEOUT = 10.0
"""Seconds that a running browser may take to answer."""


HoldsTime: TypeAlias = Literal["no", "if it can", "yes"]


@dataclass(frozen=True)
class BrowserSpec:
    """Specification of a browser. Environments with equal specifications share browsers."""

    headless: bool = True
    executable: str | None = None
    """Path of the browser; None to search for one (`browser_env.browser.browsers.find_browser`)."""
    switches: tuple[str, ...] = ()
    """Additional command-line switches of the browser."""
    page_memory: float = 2048
    """MB that a page's process may use; beyond that the process is killed, which counts as a crash."""
    holds_time: HoldsTime = "no"
    """Whether pages run in virtual time (`page_time`): no, if the browser can, or yes."""
    number: int = 0
    """Number of the browser among browsers with equal specifications."""


@dataclass(frozen=True, eq=False)
class ContextSlot:
    """A place for one context in a browser."""

    spec: BrowserSpec
    """Specification of the browser."""


@dataclass
class _Slot:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    browser: Browser | None = None
    words: StderrCapture | None = None
    rooms: WeakSet[ContextSlot] = field(default_factory=WeakSet)
    """Places that are taken."""

    async def close(self) -> None:
        """Close the browser, whatever its state. The caller holds the lock."""
        browser, self.browser = self.browser, None
        if browser is not None:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(browser.close(), 5)


class Runtime:
    """The process's event loop thread and its browsers. Get it with `runtime()`."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.loop = asyncio.new_event_loop()
        self._playwright: Playwright | None = None
        self._playwright_lock: asyncio.Lock | None = None
        self._slots: dict[BrowserSpec, _Slot] = {}
        self._guards: set[asyncio.Task[None]] = set()
        self._killed: dict[BrowserSpec, float] = {}
        """When (`time.monotonic`) a page was last killed for its memory, by browser."""
        self._devtools: WeakKeyDictionary[Any, DevTools] = WeakKeyDictionary()
        self._thread = threading.Thread(target=self._serve, name="browser-env", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def run(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Run a coroutine on the loop and wait for it, from any other thread.

        Raises:
            EnvError: called from the loop itself, the loop has stopped, or `timeout` seconds passed.
        """
        if threading.current_thread() is self._thread or not self._thread.is_alive():
            work.close()
            raise EnvError("The environment's event loop was called from itself, or has been shut down.")
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result(timeout)
        except FutureTimeout:
            if future.done():
                raise
            future.cancel()
            raise EnvError(f"No answer within {timeout:g} s.") from None
        except BaseException:
            future.cancel()
            raise

    async def playwright(self) -> Playwright:
        """Return Playwright's driver, started on first use. Call it on the loop."""
        self._playwright_lock = self._playwright_lock or asyncio.Lock()
        async with self._playwright_lock:
            if self._playwright is None:
                from playwright.async_api import async_playwright

                self._playwright = await async_playwright().start()
            return self._playwright

    async def _living_driver(self) -> Playwright:
        """Return Playwright's driver, or a new one if its process has died."""
        driver = await self.playwright()
        try:
            await (await driver.request.new_context()).dispose()  # the cheapest possible request
        except Exception:
            async with self._playwright_lock or asyncio.Lock():
                if self._playwright is driver:
                    self._playwright = None
        return await self.playwright()

    async def browser(self, spec: BrowserSpec) -> Browser:
        """Return the running browser for `spec`, starting or restarting it if needed. Call it on the loop."""
        slot = self._slots.setdefault(spec, _Slot())
        async with slot.lock:
            if slot.browser is None or not slot.browser.is_connected():
                browser, slot.words = await self._start(spec, (await self._living_driver()).chromium.launch)
                slot.browser = browser
            elif slot.words is not None:
                slot.words.trim()
            return slot.browser

    def room(self, spec: BrowserSpec) -> ContextSlot:
        """Reserve a place for a context in one of the browsers for `spec`, until `leave` is called."""
        for number in itertools.count():
            room = ContextSlot(replace(spec, number=number))
            rooms = self._slots.setdefault(room.spec, _Slot()).rooms
            if len(rooms) < CONTEXTS:
                rooms.add(room)
                return room
        raise AssertionError("unreachable")

    def leave(self, room: ContextSlot) -> None:
        """Release a context's place. Call it on the loop."""
        slot = self._slots.get(room.spec)
        if slot is None:
            return  # the place belongs to another runtime
        slot.rooms.discard(room)
        if room.spec.number and not slot.rooms:
            self._guards.add(guard := asyncio.ensure_future(self._end_unused(room.spec)))
            guard.add_done_callback(self._guards.discard)

    async def _end_unused(self, spec: BrowserSpec) -> None:
        await asyncio.sleep(UNUSED)
        slot = self._slots[spec]
        async with slot.lock:  # contexts that wait for the browser already have a place
            if not slot.rooms:
                await slot.close()

    def devtools(self, browser: Browser | None) -> DevTools | None:
        """Return a browser's DevTools pipe; None if this process doesn't have the pipe."""
        return self._devtools.get(browser)

    async def death(self, spec: BrowserSpec) -> str:
        """Return a message if the shared browser for `spec` has ended, with its last errors; empty while it runs."""
        slot = self._slots.get(spec)
        return "" if slot is None or slot.browser is None else await death_of(slot.browser, slot.words)

    async def executable(self, spec: BrowserSpec) -> str:
        """Return the path of the browser for `spec`. Call it on the loop."""
        driver = await self.playwright()
        return spec.executable or find_browser(headless=spec.headless, playwright_path=driver.chromium.executable_path)

    async def launch_persistent(
        self, spec: BrowserSpec, folder: Path, arguments: Mapping[str, Any]
    ) -> tuple[BrowserContext, StderrCapture]:
        """Start a browser on a profile folder. Call it on the loop.

        Returns:
            The browser's context, whose closing ends the browser, and the browser's error stream.

        Args:
            spec: specification of the browser.
            folder: the profile.
            arguments: as for Playwright's `Browser.new_context`.
        """
        driver = await self.playwright()
        return await self._start(
            spec, lambda **options: driver.chromium.launch_persistent_context(folder, **arguments, **options)
        )

    async def connect(self, url: str, *, keep_defaults: bool) -> Browser:
        """Connect to a running browser; closing the returned object only disconnects. Call it on the loop.

        Args:
            url: DevTools address of the browser.
            keep_defaults: keep the download, focus and media settings of its own windows.

        Raises:
            EnvError: no browser answers at the address.
        """
        from playwright.async_api import Error

        driver = await self.playwright()
        try:
            return await driver.chromium.connect_over_cdp(
                url, timeout=stretched(CONNECT_TIMEOUT) * 1000, no_defaults=keep_defaults, is_local=True
            )
        except Error as error:
            raise EnvError(
                f"No browser answers at {url}; start one with --remote-debugging-port, or give the address that it "
                f"printed ({first_line(error)})."
            ) from error

    async def _start(self, spec: BrowserSpec, start: Callable[..., Awaitable[T]]) -> tuple[T, StderrCapture]:
        from playwright.async_api import BrowserContext, Error

        from selfsurf.browser_env.browser import page_time
        from selfsurf.browser_env.browser.devtools import HandOver

        path = await self.executable(spec)
        held = spec.holds_time != "no" and can_hold_time(path, spec.headless, spec.switches)
        if spec.holds_time == "yes" and not held:
            raise EnvError(f'clock="virtual" needs Chromium\'s headless shell on Linux, which {path} is not.')
        kinds = {"no": (False,), "yes": (True,), "if it can": (True, False) if held else (False,)}[spec.holds_time]
        _log.info("Starting %s", path)
        root = hasattr(os, "geteuid") and os.geteuid() == 0
        why = ""
        # Chromium's sandbox never works for root; it may be unavailable elsewhere (containers without user namespaces).
        for sandbox, holds_time in itertools.product((False,) if root else (True, False), kinds):
            js_flags = f"--js-flags=--max-old-space-size={int(spec.page_memory)}"
            switches = (*SWITCHES, *(page_time.SWITCHES if holds_time else FREE_FRAMES))
            hand_over = HandOver(holds_time=holds_time)
            words = StderrCapture(path, hand_over.command)
            try:
                started = await start(
                    executable_path=words.program,
                    headless=spec.headless,
                    chromium_sandbox=sandbox,
                    args=merged([*switches, js_flags, *spec.switches]),
                    # Keeps Chromium's limit of 200 navigations in 10 s, which Playwright lifts: pages may be hostile.
                    ignore_default_args=["--disable-ipc-flooding-protection"],
                    handle_sigint=False,
                    handle_sigterm=False,
                    handle_sighup=False,
                    timeout=stretched(LAUNCH_TIMEOUT) * 1000,
                )
            except Error as error:
                why = str(words) or first_line(error)
                _log.debug("%s did not start: %s", path, error)
            else:
                browser = started.browser if isinstance(started, BrowserContext) else started
                devtools = hand_over.result()
                if holds_time and not (devtools is not None and await devtools.holds_time()):
                    why = "it draws no frames on demand"
                    _log.info("%s: %s.", path, why)
                    opened: Any = started
                    with contextlib.suppress(Error):
                        await opened.close()
                    continue
                if devtools is not None:
                    self._devtools[browser] = devtools
                self._guards.add(guard := asyncio.ensure_future(self._keep_small(browser, spec)))
                guard.add_done_callback(self._guards.discard)
                return started, words
            finally:
                hand_over.close()
                words.started()
        raise EnvError(f"The browser {path} did not start: {why}")

    async def _keep_small(self, browser: Any, spec: BrowserSpec) -> None:
        def killed() -> None:
            self._killed[spec] = time.monotonic()

        await kill_large_renderers(browser, spec.page_memory, killed)

    def outgrown(self, spec: BrowserSpec) -> str:
        """Return a message if a page of a browser for `spec` was just killed for its memory; empty otherwise."""
        if time.monotonic() - self._killed.get(spec, -math.inf) > JUST_NOW:
            return ""
        return f"the page used more than {spec.page_memory:g} MB (page_memory) and was killed"

    async def discard(self, spec: BrowserSpec, browser: Browser | None = None) -> None:
        """Close the browser for `spec`, whatever its state; the next use starts another.

        Args:
            spec: specification of the browser.
            browser: close only this browser; None for any.
        """
        slot = self._slots.setdefault(spec, _Slot())
        async with slot.lock:
            if browser in (None, slot.browser):
                await slot.close()

    async def _stop(self) -> None:
        for spec in list(self._slots):
            await self.discard(spec)
        if self._playwright is not None:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(self._playwright.stop(), 5)
            self._playwright = None
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for _ in range(2):  # the first cancellation may end only the future that a task awaits
            for task in left:
                task.cancel()
            if left:  # otherwise Python warns about destroyed tasks
                _, left = await asyncio.wait(left, timeout=1)

    def shutdown(self) -> None:
        """Close all browsers and stop the loop."""
        if self.pid != os.getpid() or not self._thread.is_alive():
            return
        with contextlib.suppress(Exception):
            self.run(self._stop(), timeout=15)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(timeout=5)


async def death_of(browser: Browser, words: StderrCapture | None) -> str:
    """Return a message if a browser has ended, with its last errors; empty while it runs."""
    for _ in range(DEATH_LOOKS):
        if not browser.is_connected():
            return f"the browser has ended: {words or ''}".removesuffix(": ")
        await asyncio.sleep(0.05)
    return ""


_runtime: Runtime | None = None
_guard = threading.Lock()


def runtime() -> Runtime:
    """Return this process's runtime, started on first use (and again after a fork)."""
    global _runtime
    with _guard:
        if _runtime is None or _runtime.pid != os.getpid() or not _runtime._thread.is_alive():
            _runtime = Runtime()
        return _runtime


def shutdown() -> None:
    """Close every browser of this process. Existing environments can no longer be used."""
    global _runtime
    with _guard:
        old, _runtime = _runtime, None
    if old is not None:
        old.shutdown()


def _after_fork() -> None:
    """Replace the lock in a forked child, which lacks the thread that may have held it."""
    global _guard
    _guard = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
atexit.register(shutdown)
