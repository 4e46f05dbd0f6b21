"""The provider `webview`: the page of any embedded browser that supports Chromium's DevTools protocol."""

from __future__ import annotations

from typing import Any

from selfsurf.browser_env.environment.env import AsyncBrowserEnv
from selfsurf.browser_env.router.provider import Complete, Decide
from selfsurf.browser_env.router.providers.environment import EnvironmentProvider, on_loop
from selfsurf.browser_env.session.options import SessionOptions
from selfsurf.browser_env.session.webview import view_size


class WebviewProvider(EnvironmentProvider):
    """A provider on an application's embedded page, which is used in its current state and left open afterwards.

    Args:
        address: DevTools address of the application, such as `http://127.0.0.1:9222`
            (QtWebEngine: `QTWEBENGINE_REMOTE_DEBUGGING=127.0.0.1:9222`).
        decide: policy that performs instructions in words.
        complete: model that reads a page into a type.
        options: as for `AsyncBrowserEnv`.

    Raises:
        ValueError: hosts are allowed or blocked, which can't be enforced in an application's browser.
    """

    name = "webview"

    def __init__(
        self, address: str, *, decide: Decide | None = None, complete: Complete | None = None, **options: Any
    ) -> None:
        super().__init__(None, decide=decide, complete=complete)
        safety = options.get("safety")
        if safety is not None and (safety.allowed or safety.blocked):
            raise ValueError("Hosts can't be allowed or blocked in an application's browser: leave out webview.")
        self._session = SessionOptions(webview=address)
        self._options = options

    async def make(self) -> AsyncBrowserEnv:
        """Create an environment that is connected to the embedded page and has its viewport size."""
        viewport = await on_loop(view_size(str(self._session.webview)))
        return AsyncBrowserEnv(session=self._session, viewport=viewport, **{"screenshot": False, **self._options})
