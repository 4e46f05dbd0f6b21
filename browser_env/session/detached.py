"""A browser that outlives the process that started it, with its address, profile and messages in a folder.

A session opened on the folder attaches to the browser if it runs, and starts it otherwise. The browser ends when its
session is closed, but not when the process dies. Only its user can read the folder and its files.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from selfsurf.browser_env.browser.browsers import FREE_FRAMES, SWITCHES, merged
from selfsurf.browser_env.browser.page_script import PROBE, read_script
from selfsurf.browser_env.browser.profile_lock import ProfileLock, is_browser_on, kill
from selfsurf.browser_env.browser.runtime import LAUNCH_TIMEOUT, BrowserSpec, runtime
from selfsurf.browser_env.errors import EnvError
from selfsurf.browser_env.patience import TICK, Stopwatch
from selfsurf.browser_env.session.contexts import RemoteSource
from selfsurf.browser_env.session.options import SessionOptions
from selfsurf.browser_env.task import Viewport

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page

    from selfsurf.browser_env.session.tab import Tab

CLOSING = 3.0
"""Seconds that the browser may take to end after a request to close."""

_OF_CONTEXT = {"viewport", "accept_downloads", "proxy"}
"""Context arguments that a browser's default context supports."""

_LIKE_PLAYWRIGHT = (
    "--disable-field-trial-config", "--disable-background-timer-throttling", "--disable-backgrounding-occluded-windows",
    "--disable-back-forward-cache", "--disable-breakpad", "--disable-client-side-phishing-detection",
    "--no-default-browser-check", "--disable-default-apps", "--disable-dev-shm-usage", "--disable-extensions",
    "--allow-pre-commit-input", "--disable-hang-monitor", "--disable-popup-blocking", "--disable-prompt-on-repost",
    "--disable-renderer-backgrounding", "--force-color-profile=srgb", "--metrics-recording-only",
    "--enable-automation", "--password-store=basic", "--use-mock-keychain", "--disable-search-engine-choice-screen",
)  # fmt: skip
"""Switches that Playwright adds to the browsers that it starts itself."""


class DetachedSource(RemoteSource):
    """Source of the default context of a browser in a folder."""

    def __init__(self, spec: BrowserSpec, options: SessionOptions) -> None:
        super().__init__(spec, options)
        assert options.detached is not None
        self.folder = Path(options.detached).expanduser().resolve()
        self._own_profile = self.folder / "profile"
        profile = Path(options.profile).expanduser().resolve() if options.profile else self._own_profile
        self._lock = ProfileLock(profile)
        self._noted = _read(self.folder)
        self.attached = bool(self._noted.get("address")) and is_alive(self._noted)

    @property
    def probe(self) -> str:
        """Name of the event that asks pages for listeners, chosen by the process that started the browser."""
        return str(self._noted["probe"])

    @property
    def gate_port(self) -> int:
        """Port of the proxy to which a running browser sends everything; 0 for any free port."""
        return int(self._noted.get("gate", 0)) if self.attached else 0

    async def open(self, arguments: Mapping[str, Any]) -> BrowserContext:
        """Attach to the folder's browser, or start it, and return its default context.

        Raises:
            EnvError: the browser does not start, or its profile is in use.
            ValueError: a default context can't have one of the arguments.
        """
        if extra := sorted(set(arguments) - _OF_CONTEXT):
            raise ValueError(f"A detached browser doesn't support {', '.join(extra)}.")
        await self._lock.acquire(end_orphan=not self.attached)
        try:
            if not self.attached:
                path = await runtime().executable(self.spec)
                self._noted = await asyncio.to_thread(self._start, path, arguments.get("proxy"))
            self._lock.note_browser(self._noted["pid"], self.folder / "browser.json")
            self._browser = await runtime().connect(self._noted["address"], keep_defaults=False)
            return self._browser.contexts[0]
        except BaseException:
            await self._disconnect()
            if not self.attached:
                await asyncio.to_thread(end_browser, self.folder, keep_profile=True)
            self._lock.release()
            raise

    def _start(self, path: str, proxy: Mapping[str, str] | None) -> dict[str, Any]:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        profile = self._lock.folder
        profile.chmod(0o700)
        switches = merged([
            *SWITCHES, *FREE_FRAMES, *_LIKE_PLAYWRIGHT, f"--js-flags=--max-old-space-size={int(self.spec.page_memory)}",
            *self.spec.switches, *_proxy_switches(proxy), *(["--headless"] if self.spec.headless else []),
            f"--user-data-dir={profile}", "--remote-debugging-pipe",
        ])  # fmt: skip
        root = os.geteuid() == 0
        why = ""
        for sandbox in (False,) if root else (True, False):
            pid, read, write = self._launch([path, *([] if sandbox else ["--no-sandbox"]), *switches, "about:blank"])
            gate = urlsplit(proxy["server"]).port or 0 if proxy is not None else 0
            noted = {"pid": pid, "profile": str(profile), "gate": gate, "probe": PROBE}
            _write(self.folder, noted)  # lets the browser be ended even if this process dies now
            if address := _relayed(read, write):
                noted["address"] = address
                _write(self.folder, noted)
                return noted
            kill(pid)
            os.waitpid(pid, 0)
            why = (self.folder / "browser.log").read_text(errors="replace").strip()[-300:]
        raise EnvError(f"The browser {path} did not start: {why}")

    def _launch(self, command: list[str]) -> tuple[int, int, int]:
        """Start a browser; return its process id and the ends of its pipe to read from and to write to."""
        told, write = os.pipe()
        read, says = os.pipe()
        try:
            with open(self.folder / "browser.log", "wb") as log, open(os.devnull, "rb") as nothing:
                ends = {0: nothing.fileno(), 1: log.fileno(), 2: log.fileno(), 3: told, 4: says}
                actions = [(os.POSIX_SPAWN_DUP2, end, number) for number, end in ends.items()]
                return os.posix_spawn(command[0], command, os.environ, file_actions=actions, setsid=True), read, write
        finally:
            os.close(told)
            os.close(says)

    async def prepare(self, context: BrowserContext, note: Callable[[str], None]) -> None:
        """Set up the context of a browser just started; a browser that already ran stays as it is."""
        await context.add_init_script(read_script("view_transitions"))  # the browser's frame rate is unlimited
        if not self.attached:
            await super().prepare(context, note)

    async def attach(self, tab: Tab, viewport: Viewport) -> None:
        """Set a new tab to the viewport's size instead of its window's."""
        await tab.page.set_viewport_size({"width": viewport[0], "height": viewport[1]})

    async def death(self) -> str:
        """Return a message if the browser has ended; empty while it runs."""
        return "" if is_alive(self._noted) else "the browser has ended"

    async def close(self, context: BrowserContext, pages: Sequence[Page]) -> None:
        """End the browser and remove its files, except for a profile folder given by the user."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(CLOSING):
                assert self._browser is not None
                protocol = await self._browser.new_browser_cdp_session()
                await protocol.send("Browser.close")
        await self._end_it()

    async def kill(self, context: BrowserContext, closing: asyncio.Future[None]) -> None:
        """End the browser without asking it to close, and remove its files."""
        closing.cancel()
        await self._end_it()

    async def _end_it(self) -> None:
        await self._disconnect()
        await asyncio.to_thread(self._end)
        self._lock.release()

    async def give_up(self) -> None:
        """End a browser that can't be attached to. The profile stays.

        Raises:
            EnvError: another environment uses the profile.
        """
        await self._lock.acquire(end_orphan=False)
        self.attached = False
        await asyncio.to_thread(end_browser, self.folder, keep_profile=True)
        self._lock.release()

    def _end(self) -> None:
        self.attached = False
        end_browser(self.folder, patience=CLOSING)


def _relayed(read: int, write: int) -> str:
    """Start the relay process between a browser and its clients; return its address, empty if it doesn't start."""
    process = subprocess.Popen(
        [sys.executable, "-P", str(Path(__file__).with_name("relay.py")), str(read), str(write)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
        pass_fds=(read, write),
    )  # fmt: skip
    os.close(read)
    os.close(write)
    assert process.stdout is not None
    with process.stdout as said:
        waits = Stopwatch()
        while waits.look() < LAUNCH_TIMEOUT:
            if select.select([said], [], [], TICK)[0]:
                return said.readline().decode().strip()
        return ""


def is_alive(noted: Mapping[str, Any]) -> bool:
    """Whether a recorded browser still runs."""
    return bool(noted) and is_browser_on(int(noted["pid"]), Path(noted["profile"]))


def has_browser(folder: Path) -> bool:
    """Whether the browser of a folder runs."""
    return is_alive(_read(folder))


def end_browser(folder: Path, *, patience: float = 0.0, keep_profile: bool = False) -> bool:
    """End the browser of a folder and remove its files: address, messages, and the profile in the folder.

    Args:
        folder: the folder (`SessionOptions.detached`).
        patience: seconds that the browser may take to end by itself.
        keep_profile: leave the profile in the folder.

    Returns:
        Whether a browser was running.
    """
    noted = _read(folder)
    alive = is_alive(noted)
    end = time.monotonic() + patience
    while is_alive(noted):
        with contextlib.suppress(ChildProcessError):
            os.waitpid(noted["pid"], os.WNOHANG)
        if time.monotonic() > end:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(noted["pid"], signal.SIGKILL)
        time.sleep(0.02)
    if not keep_profile:
        shutil.rmtree(folder / "profile", ignore_errors=True)
    for name in ("browser.json", "browser.log"):
        (folder / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()
    return alive


def _proxy_switches(proxy: Mapping[str, str] | None) -> list[str]:
    if proxy is None:
        return []
    direct = [host for host in proxy.get("bypass", "").split(",") if host]
    return [f"--proxy-server={proxy['server']}", f"--proxy-bypass-list={';'.join(['<-loopback>', *direct])}"]


def _read(folder: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError, KeyError):
        noted: dict[str, Any] = json.loads((folder / "browser.json").read_text(encoding="utf8"))
        return noted if noted["pid"] else {}
    return {}


def _write(folder: Path, noted: Mapping[str, Any]) -> None:
    partial = folder / "browser.json.partial"
    partial.unlink(missing_ok=True)
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(noted, file)
    partial.replace(folder / "browser.json")
