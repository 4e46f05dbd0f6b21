"""Puts the network and file rules of a `Safety` around a browser context, and reports what they kept out."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from selfsurf.browser_env.errors import ActionError
from selfsurf.browser_env.safety.files import shows_file
from selfsurf.browser_env.safety.network import Rules, host_and_port
from selfsurf.browser_env.safety.policy import Safety
from selfsurf.browser_env.safety.proxy import FilteringProxy
from selfsurf.browser_env.session.runtime import BrowserSpec
from selfsurf.browser_env.text import clip

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Request, Route

NOT_A_PATH = "file outside of the allowed folders"

CLAIM_BOUND = 0.5
"""Seconds for a request to be heard of whose connection the proxy has seen already."""

WEBRTC_SWITCH = "--force-webrtc-ip-handling-policy=disable_non_proxied_udp"
"""WebRTC would otherwise send UDP past the proxy."""


class AccessGuard:
    """The rules of one session in force.

    Args:
        safety: what the user said.
        start_url: where the task starts.
        sites: origins that the task serves from folders.
        guarded: False for a context that exists already: its network can't be led through here.

    Raises:
        ValueError: hosts are allowed or blocked, and the context can't be held to it.
    """

    def __init__(
        self,
        safety: Safety,
        start_url: str | None = None,
        sites: Mapping[str, Path] | None = None,
        *,
        guarded: bool = True,
    ) -> None:
        if not guarded and (safety.allowed or safety.blocked):
            raise ValueError("A browser's default context can't be held to allowed or blocked hosts; leave them out.")
        self.safety = safety
        self._guarded = guarded and safety.guards_network
        own = [host_and_port(url)[0] for url in (start_url or "", *(sites or {}))]
        self.rules = Rules(safety, filter(None, own))
        self.folders = tuple(safety.allow_files)
        if (start_url or "").startswith("file:"):
            self.folders += (Path(unquote(urlsplit(start_url or "").path)).parent,)
        self.proxy: FilteringProxy | None = None
        self.navigation = ""
        """The last top-level navigation that was kept out since `start_step`, as a sentence."""
        self._note: Callable[[str], None] = lambda event: None
        self._refused: dict[tuple[str, int | None], str] = {}
        self._unclaimed: dict[tuple[str, int | None], str] = {}
        self._noted: set[str] = set()

    def browser_spec(self, spec: BrowserSpec) -> BrowserSpec:
        """Return the browser that the rules need."""
        if not self._guarded or WEBRTC_SWITCH in spec.switches:
            return spec
        return replace(spec, switches=(*spec.switches, WEBRTC_SWITCH))

    async def proxied(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return a context's arguments with the proxy as its proxy; without network rules they stay as they are.

        They also stay if they name a proxy and no hosts are allowed or blocked: what a proxy reaches is its own
        network, and many let nothing but the web's own ports through a tunnel, which the proxy would need.

        Raises:
            ValueError: the arguments have a proxy of a kind that the proxy can't go through.
        """
        if not self._guarded or (options.get("proxy") and not (self.safety.allowed or self.safety.blocked)):
            return options
        self.proxy = await FilteringProxy.open(self.rules, options.get("proxy"))
        self.proxy.on_refused = self._on_refused
        return {**options, "proxy": self.proxy.settings}

    async def report_to(self, context: BrowserContext, note: Callable[[str], None]) -> None:
        """Report to `note` what is kept out of a context, and hold its `file:` pages to their folders."""
        self._note = note
        if self.proxy is not None:
            context.on("requestfailed", self._failed)
        if self.folders:  # no page but one from a file can open files, so without folders nobody has to look
            await context.route("file:///**", self._file)

    @contextlib.contextmanager
    def during_setup(self, context: BrowserContext) -> Iterator[None]:
        """While the task sets itself up, what its own code opens from a blank page becomes its own host."""
        if self.proxy is None:
            yield
            return
        heard = asyncio.Event()

        def claim(request: Request) -> None:
            if request.is_navigation_request() and request.redirected_from is None:
                frame = request.frame
                came_from = host_and_port(frame.url)[0]
                if frame.parent_frame is None and (not came_from or self.rules.is_own(came_from)):
                    self.rules.own.add(host_and_port(request.url)[0])
            heard.set()

        async def claimed(host: str) -> bool:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLAIM_BOUND):
                    while not self.rules.is_own(host):
                        heard.clear()
                        await heard.wait()
            return self.rules.is_own(host)

        context.on("request", claim)
        self.proxy.claimed = claimed
        try:
            yield
        finally:
            self.proxy.claimed = None
            context.remove_listener("request", claim)

    async def check_url(self, url: str) -> None:
        """Check an address that the agent wants to open.

        Raises:
            ActionError: it may not be opened.
        """
        if url.startswith("file:"):
            why = "" if shows_file(url, self.folders) else NOT_A_PATH
        else:
            why = await self.proxy.refusal_of(url) if self.proxy is not None else ""
        if why:
            self._keep_out(url, why)
            raise ActionError(f"{url} was not opened: {why}.")

    def explain(self, failure: str) -> str:
        """Say in Playwright's message about a failed navigation what really failed, behind the proxy."""
        match = re.search(r"net::ERR_SOCKS_CONNECTION_FAILED(?: at (\S+))?", failure)
        if match is None or self.proxy is None:
            return failure
        cause = self.proxy.failures.get(host_and_port(match[1] or ""), "the connection failed")
        return failure.replace("net::ERR_SOCKS_CONNECTION_FAILED", cause)

    def start_step(self) -> None:
        """A step begins."""
        self.navigation = ""
        self._noted.clear()

    def report_unclaimed(self) -> None:
        """Report connections that were refused and that no request of a page has been heard of."""
        for (host, port), why in self._unclaimed.items():
            self._note(f"blocked: {f'[{host}]' if ':' in host else host}:{port} ({why})")
        self._unclaimed.clear()

    async def close(self) -> None:
        """Close the proxy."""
        if self.proxy is not None:
            await self.proxy.close()

    def _on_refused(self, host: str, port: int, why: str) -> None:
        self._refused[host, port] = why
        self._unclaimed[host, port] = why

    def _failed(self, request: Request) -> None:
        key = host_and_port(request.url)
        if key not in self._refused or "ERR_SOCKS" not in (request.failure or ""):
            return
        self._unclaimed.pop(key, None)
        why = self._refused[key]
        self._keep_out(request.url, why)
        if _is_top(request):
            self.navigation = f"{request.url} was not opened: {why}."

    async def _file(self, route: Route) -> None:
        request = route.request
        if shows_file(request.url, self.folders):
            await route.fallback()
            return
        self._keep_out(request.url, NOT_A_PATH)
        if _is_top(request):
            self.navigation = f"{request.url} was not opened: {NOT_A_PATH}."
        await route.abort("blockedbyclient")

    def _keep_out(self, url: str, why: str) -> None:
        event = f"blocked: {clip(url, 200)} ({why})"
        if event not in self._noted:
            self._noted.add(event)
            self._note(event)


def _is_top(request: Request) -> bool:
    """Is this the navigation of a tab? A popup's first one has no frame yet, as far as Playwright knows."""
    from playwright.async_api import Error

    try:
        return request.is_navigation_request() and request.frame.parent_frame is None
    except Error:
        return True


def served(sites: Mapping[str, Path], access: AccessGuard) -> dict[str, Path]:
    """Return the sites that may be reached: those that the rules block are left to the proxy, which refuses them."""
    return {origin: folder for origin, folder in sites.items() if not access.rules.refuses_name(*host_and_port(origin))}
