"""Choice of the source of a session's browser context."""

from __future__ import annotations

from selfsurf.browser_env.browser.runtime import BrowserSpec
from selfsurf.browser_env.session.contexts import ContextSource, ProfileSource, RemoteSource
from selfsurf.browser_env.session.detached import DetachedSource
from selfsurf.browser_env.session.options import SessionOptions
from selfsurf.browser_env.session.webview import WebviewSource


def context_source(spec: BrowserSpec, options: SessionOptions) -> ContextSource:
    """Return the context source that the options require."""
    if options.detached:
        return DetachedSource(spec, options)
    if options.webview:
        return WebviewSource(spec, options)
    kind = ProfileSource if options.profile else RemoteSource if options.cdp_url else ContextSource
    return kind(spec, options)
