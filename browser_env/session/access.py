"""Enforcement of a `Safety`'s network and file rules in a browser context, with reports of blocked requests."""

from __future__ import annotations

import asyncio
import contextlib
import mimetypes
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from selfsurf.browser_env.browser.runtime import BrowserSpec
from selfsurf.browser_env.errors import ActionError, EnvError
from selfsurf.browser_env.safety.network import Rules, host_and_port
from selfsurf.browser_env.safety.policy import Safety
from selfsurf.browser_env.safety.proxy import FilteringProxy
from selfsurf.browser_env.session.files import shows_file
from selfsurf.browser_env.task import Task
from selfsurf.browser_env.text import clip

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page, Request, Route

_NO_GATE = "net::ERR_PROXY_CONNECTION_FAILED"

NOT_A_PATH = "file outside of the allowed folders"

CLAIM_BOUND = 0.5
"""Seconds to wait until the browser reports a request whose connection the proxy has already seen."""

WEBRTC_SWITCH = "--force-webrtc-ip-handling-policy=disable_non_proxied_udp"
"""Chromium switch that keeps WebRTC from sending UDP past the proxy."""


class AccessGuard:
    """The network and file rules of one session.

    Args:
        safety: the user's rules.
        start_url: start address of the task.
        sites: folders by the origins that the task serves from them.
        guarded: False for an existing context, whose network can't be routed through the proxy.

    Raises:
        ValueError: hosts are allowed or blocked, which can't be enforced in this context.
    """

    def __init__(self, safety: Safety, start_url: str | None, sites: Mapping[str, Path], *, guarded: bool) -> None:
        if not guarded and (safety.allowed or safety.blocked):
            raise ValueError("Hosts can't be allowed or blocked in a browser's default context.")
        self.safety = safety
        self._guarded = guarded and safety.guards_network
        start_url = start_url if safety.trust_start else None
        self.rules = Rules(safety, (start_url or "", *sites))
        self.folders = tuple(safety.allow_files)
        if (start_url or "").startswith("file:"):
            self.folders += (Path(unquote(urlsplit(start_url or "").path)).parent,)
        self.proxy: FilteringProxy | None = None
        self.navigation = ""
        """Sentence about the last top-level navigation blocked since `start_step`; empty if there is none."""
        self._note: Callable[[str], None] = lambda event: None
        self._refused: dict[tuple[str, int | None], str] = {}
        self._unclaimed: dict[tuple[str, int | None], str] = {}
        self._noted: set[str] = set()

    def browser_spec(self, spec: BrowserSpec) -> BrowserSpec:
        """Return the browser specification that the rules require."""
        if not self._guarded or WEBRTC_SWITCH in spec.switches:
            return spec
        return replace(spec, switches=(*spec.switches, WEBRTC_SWITCH))

    async def proxied(self, options: dict[str, Any], port: int = 0) -> dict[str, Any]:
        """Add our proxy to a context's arguments, unless there are no network rules.

        The arguments are also unchanged if they name a proxy and no hosts are allowed or blocked: the given proxy
        reaches its own network, and many proxies only tunnel the web's standard ports, while ours needs tunnels for
        all.

        Args:
            options: arguments of the context.
            port: port for our proxy; 0 for a free one.

        Raises:
            ValueError: the arguments name a proxy of a kind that ours can't connect through.
        """
        if not self._guarded or (options.get("proxy") and not (self.safety.allowed or self.safety.blocked)):
            return options
        self.proxy = await FilteringProxy.open(self.rules, options.get("proxy"), port)
        self.proxy.on_refused = self._on_refused
        return {**options, "proxy": self.proxy.settings}

    def admit(self, url: str) -> None:
        """Treat the host of an address as one of the task's own, because the user has named the address."""
        host, port = host_and_port(url)
        self.rules.add_own(url)
        self._refused.pop((host, port), None)
        self._unclaimed.pop((host, port), None)

    async def report_to(self, context: BrowserContext, note: Callable[[str], None]) -> None:
        """Report a context's blocked requests to `note`, and restrict its `file:` pages to the allowed folders."""
        self._note = note
        if self.proxy is not None:
            context.on("requestfailed", self._failed)
        if self.folders:  # only pages from files can open files, so nothing needs checking without folders
            await context.route("file:///**", self._file)

    @contextlib.contextmanager
    def during_setup(self, page: Page, task: Task) -> Iterator[None]:
        """Within this context, treat hosts as the task's own if its setup code opens them from a blank page.

        Only the setup code can do this: an existing page navigates away from itself, and a page that has become blank
        can be navigated only by another page that it has opened.

        Raises:
            EnvError: the task starts at a file, is not trusted (`Safety.trust_start`), and no rule allows its folder.
        """
        start = task.start_url or ""
        if self.safety.trust_start:
            self.admit(start)
        elif start.startswith("file:") and not shows_file(start, self.folders):
            raise EnvError(NOT_A_PATH)
        if self.proxy is None or type(task).setup is Task.setup:
            yield
            return
        heard = asyncio.Event()

        def claim(request: Request) -> None:
            if request.is_navigation_request() and request.redirected_from is None:
                frame, alone = request.frame, len(page.context.pages) == 1
                if alone and frame.parent_frame is None and not host_and_port(frame.url)[0]:
                    self.rules.add_own(request.url)
            heard.set()

        async def claimed(host: str) -> bool:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLAIM_BOUND):
                    while not self.rules.is_own(host):
                        heard.clear()
                        await heard.wait()
            return self.rules.is_own(host)

        page.on("request", claim)
        self.proxy.claimed = claimed
        try:
            yield
        finally:
            self.proxy.claimed = None
            page.remove_listener("request", claim)

    async def check_url(self, url: str) -> None:
        """Check a URL that the agent tries to open.

        Raises:
            ActionError: the URL may not be opened.
        """
        if url.startswith("file:"):
            why = "" if shows_file(url, self.folders) else NOT_A_PATH
        else:
            why = await self.proxy.refusal_of(url) if self.proxy is not None else ""
        if why:
            self._keep_out(url, why)
            raise ActionError(f"{url} was not opened: {why}.", "refused")

    def explain(self, failure: str) -> str:
        """Replace the proxy's error in Playwright's message about a failed navigation by the real cause."""
        if self.proxy is not None and _NO_GATE in failure:
            return failure.replace(
                _NO_GATE,
                "the browser can't reach this process, which relays its requests: run the browser on this machine, or "
                "use Safety(allow_private=True) without lists of hosts",
            )
        match = re.search(r"net::ERR_SOCKS_CONNECTION_FAILED(?: at (\S+))?", failure)
        if match is None or self.proxy is None:
            return failure
        cause = self.proxy.failures.get(host_and_port(match[1] or ""), "the connection failed")
        return failure.replace("net::ERR_SOCKS_CONNECTION_FAILED", cause)

    def start_step(self) -> None:
        """Reset the record of blocked requests at the start of a step."""
        self.navigation = ""
        self._noted.clear()

    def report_unclaimed(self) -> None:
        """Report refused connections that belong to no reported request."""
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
    """Whether a request is the navigation of a tab. In Playwright a popup's first navigation has no frame yet."""
    from playwright.async_api import Error

    try:
        return request.is_navigation_request() and request.frame.parent_frame is None
    except Error:
        return True


def served(sites: Mapping[str, Path], access: AccessGuard) -> dict[str, Callable[[Route], Awaitable[None]]]:
    """Return route handlers that serve the task's sites, by origin.

    Sites blocked by the rules are left to the proxy, which refuses them.
    """
    reached = [origin for origin in sites if not access.rules.refuses_name(*host_and_port(origin))]
    return {origin: _serve(sites[origin]) for origin in reached}


def _serve(folder: Path) -> Callable[[Route], Awaitable[None]]:
    root = folder.resolve()

    async def handler(route: Route) -> None:
        path = _file_for(route.request.url, root)
        if path is None:
            await route.fulfill(status=404, body="not found")
            return
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        await route.fulfill(status=200, body=path.read_bytes(), content_type=kind)

    return handler


def _file_for(url: str, root: Path) -> Path | None:
    try:
        path = (root / unquote(urlsplit(url).path).lstrip("/")).resolve()
        if path.is_dir():
            path /= "index.html"
        return path if path.is_relative_to(root) and path.is_file() else None
    except (OSError, ValueError):  # no file can have this name
        return None
