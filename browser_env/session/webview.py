"""The page of an embedded browser (QtWebEngine, CEF, Electron, WebView2) that speaks Chromium's DevTools protocol.

It belongs to an application: its page is taken over as it is, and is there afterwards. No page is opened or closed, and
the view keeps its size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from selfsurf.browser_env.errors import EnvError
from selfsurf.browser_env.session.contexts import RemoteSource
from selfsurf.browser_env.session.runtime import runtime
from selfsurf.browser_env.task import Viewport

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page

    from selfsurf.browser_env.session.tab import Tab


class WebviewSource(RemoteSource):
    """The views of one application, connected to for every session.

    Playwright's own setting up of a connection (downloads, focus, media) is left out, since an embedded browser refuses
    `Browser.setDownloadBehavior`.
    """

    embedded = True

    @property
    def shared_with_people(self) -> bool:
        """As `ContextSource.shared_with_people`."""
        return True

    async def open(self, arguments: Mapping[str, Any]) -> BrowserContext:
        """As `ContextSource.open`.

        Raises:
            EnvError: nothing answers at the address, or it has no page.
        """
        address = str(self.options.webview)
        self._browser = await runtime().connect(address, keep_defaults=True)
        if not any(context.pages for context in self._browser.contexts):
            await self._disconnect()
            raise EnvError(f"The application at {address} has no view with a page.")
        return self._browser.contexts[0]

    async def attach(self, tab: Tab, viewport: Viewport) -> None:
        """Leave the view as it is."""

    async def close(self, context: BrowserContext, pages: Sequence[Page]) -> None:
        """Disconnect."""
        await self._disconnect()

    async def death(self) -> str:
        """As `ContextSource.death`: say that the application has closed the connection."""
        gone = self._browser is not None and not self._browser.is_connected()
        return "the application of the webview has ended, or has closed its DevTools port" if gone else ""


async def view_size(address: str) -> Viewport:
    """Return the size in CSS pixels of the page that an environment with `SessionOptions(webview=address)` takes over.

    Raises:
        EnvError: as `WebviewSource.open`.
    """
    from selfsurf.browser_env.session.options import SessionOptions
    from selfsurf.browser_env.session.runtime import BrowserSpec

    source = WebviewSource(BrowserSpec(), SessionOptions(webview=address))
    context = await source.open({})
    try:
        width, height = await context.pages[0].evaluate("[innerWidth, innerHeight]")
        return int(width), int(height)
    finally:
        await source.close(context, ())
