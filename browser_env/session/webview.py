"""The page of an embedded browser (QtWebEngine, CEF, Electron, WebView2) with Chromium's DevTools protocol.

The page belongs to an application: it is taken over as it is and remains afterwards. No page is opened or closed, and
the view keeps its size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from selfsurf.browser_env.browser.runtime import runtime
from selfsurf.browser_env.errors import EnvError
from selfsurf.browser_env.session.contexts import RemoteSource
from selfsurf.browser_env.task import Viewport

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page

    from selfsurf.browser_env.session.tab import Tab


class WebviewSource(RemoteSource):
    """Source of an application's views, with a new connection for every session.

    Playwright's own setup of a connection (downloads, focus, media) is left out, since an embedded browser rejects
    `Browser.setDownloadBehavior`.
    """

    embedded = True

    @property
    def shared_with_people(self) -> bool:
        """Whether the context has tabs that don't belong to the environment; always True."""
        return True

    async def open(self, arguments: Mapping[str, Any]) -> BrowserContext:
        """Connect to the application and return its first context.

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
        """Disconnect from the application."""
        await self._disconnect()

    async def death(self) -> str:
        """Return a message if the application has ended or closed its DevTools port; empty while it is connected."""
        gone = self._browser is not None and not self._browser.is_connected()
        return "the application of the webview has ended, or has closed its DevTools port" if gone else ""


async def view_size(address: str) -> Viewport:
    """Return the size in CSS pixels of the page that `SessionOptions(webview=address)` takes over.

    Raises:
        EnvError: nothing answers at the address, or it has no page.
    """
    from selfsurf.browser_env.browser.runtime import BrowserSpec
    from selfsurf.browser_env.session.options import SessionOptions

    source = WebviewSource(BrowserSpec(), SessionOptions(webview=address))
    context = await source.open({})
    try:
        width, height = await context.pages[0].evaluate("[innerWidth, innerHeight]")
        return int(width), int(height)
    finally:
        await source.close(context, ())
