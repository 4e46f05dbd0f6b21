"""Page requests that show what an action did: documents, forms, calls of scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

if TYPE_CHECKING:
    from playwright.async_api import Request, Response

MOST = 50
"""Maximum number of requests kept per step; requests that change nothing are dropped first."""

LONGEST_URL = 500
"""Maximum number of characters kept of an address."""

_READING = ("GET", "HEAD", "OPTIONS")
_LEFT_OUT = frozenset({"image", "font", "stylesheet", "script", "media", "manifest", "texttrack"})


class Calls:
    """Collector of a session's requests, in the order of their responses."""

    def __init__(self) -> None:
        self._calls: list[dict[str, Any]] = []

    def answered(self, response: Response) -> None:
        """Record a request that was answered."""
        self._add(response.request, response.status)

    def failed(self, request: Request) -> None:
        """Record a request without a response: blocked, cut off, or sent to a missing server."""
        self._add(request, None)

    def so_far(self) -> tuple[dict[str, Any], ...]:
        """Return the requests that `take` would return, without clearing them."""
        return tuple(self._calls)

    def take(self) -> tuple[dict[str, Any], ...]:
        """Return the requests since the last call and clear them: `method`, `url` and `status`."""
        calls, self._calls = tuple(self._calls), []
        return calls

    def _add(self, request: Request, status: int | None) -> None:
        if request.resource_type in _LEFT_OUT:
            return
        if len(self._calls) == MOST:
            read = next((at for at in reversed(range(MOST)) if self._calls[at]["method"] in _READING), None)
            if request.method in _READING or read is None:
                return
            del self._calls[read]
        self._calls.append({"method": request.method, "url": _shown(request.url), "status": status})


def _shown(url: str) -> str:
    """Return an address without user name and password, cut to `LONGEST_URL`."""
    parts = urlsplit(url[: LONGEST_URL + 1]) if url.startswith(("http", "ws")) else None
    if parts is not None and "@" in parts.netloc:
        url = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    return url if len(url) <= LONGEST_URL else f"{url[: LONGEST_URL - 1]}…"
