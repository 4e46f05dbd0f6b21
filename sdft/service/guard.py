"""Checks before every request (token, origin, size, rate), and its metrics."""

from __future__ import annotations

import hmac
import logging
import time
from collections import OrderedDict
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from selfsurf.sdft.service.errors import RefusedRequest, answer_of
from selfsurf.sdft.service.metrics import Metrics

LARGEST_BODY = 2**20
"""Maximum size in bytes of a request other than an upload."""
RATE, BURST = 500.0, 1000.0
"""Maximum number of requests from one address, per second and in a burst."""
WRONG_RATE, WRONG_BURST = 0.2, 10.0
"""Maximum number of wrong tokens from one address, per second and in a burst."""
_ADDRESSES = 10_000
FORWARDED = ("x-forwarded-", "forwarded", "x-real-ip", "via")
"""Prefixes of headers that proxies add."""
_NO_TOKEN = (
    "The server's token is missing or wrong. Send it in the header Authorization: Bearer TOKEN; selfsurf's commands "
    "read it from SELFSURF_SERVER_TOKEN."
)
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
OPEN = ("/", "/health", "/page.js", "/page.css")
"""Paths without a token check; they expose none of the service's data."""
UPLOADS = ("/upload_trajectory", "/adapters/import")

_log = logging.getLogger(__name__)


class _Buckets:
    """Token buckets by address, refilled at a fixed rate."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._burst = rate, burst
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, address: str, count: float = 1.0) -> bool:
        """Take tokens from an address's bucket; return whether it had enough."""
        now = time.monotonic()
        left, when = self._left.pop(address, (self._burst, now))
        left = min(self._burst, left + (now - when) * self._rate)
        enough = left >= 1.0
        self._left[address] = (left - count if enough else left, now)
        if len(self._left) > _ADDRESSES:
            self._left.popitem(last=False)
        return enough


class Guard:
    """ASGI middleware with the checks.

    Args:
        app: the wrapped ASGI application.
        tokens: accepted tokens; empty to accept anyone on this machine, except pages of other sites.
        metrics: metrics of the requests.
    """

    def __init__(self, app: ASGIApp, tokens: Sequence[str], metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics
        self._tokens = [token.encode() for token in tokens]
        self._all, self._wrong = _Buckets(RATE, BURST), _Buckets(WRONG_RATE, WRONG_BURST)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to the application, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.monotonic(), 500

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-content-type-options", b"nosniff")]
            await send(message)

        try:
            self._check(scope)
        except RefusedRequest as refused:
            more = {"retry-after": "5"} if refused.status == 429 else {}
            more |= {"www-authenticate": "Bearer"} if refused.status == 401 else {}
            await answer_of(refused, **more)(scope, receive, sending)
        else:
            await self._answer(scope, receive, sending)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            self._metrics.answered(scope["method"], route, status, time.monotonic() - start)
            _log.debug("%s %s: %d", scope["method"], route, status)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; one without a declared length is first received completely."""
        if scope["path"] not in UPLOADS and "transfer-encoding" in Headers(scope=scope):
            try:
                receive = await _received(receive)
            except RefusedRequest as refused:
                await answer_of(refused)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        headers, address = Headers(scope=scope), str((scope.get("client") or ("?",))[0])
        if not self._all.take(address):
            raise RefusedRequest(
                429, "too_many_requests", "There are too many requests from this address.", retryable=True
            )
        length = headers.get("content-length", "0")
        if scope["path"] not in UPLOADS and (not length.isdigit() or int(length) > LARGEST_BODY):
            raise RefusedRequest(413, "too_large", f"A request may have at most {LARGEST_BODY:,} bytes.")
        origin = headers.get("origin")
        if not self._tokens:
            _check_local(headers, origin)
        elif scope["path"] not in OPEN:
            self._check_token(headers, address)

    def _check_token(self, headers: Headers, address: str) -> None:
        kind, _, given = headers.get("authorization", "").partition(" ")
        found = [hmac.compare_digest(given.strip().encode(), token) for token in self._tokens]  # constant time
        if kind.lower() == "bearer" and any(found):
            return
        if not self._wrong.take(address):
            raise RefusedRequest(
                429, "too_many_requests", "Too many wrong tokens came from this address.", retryable=True
            )
        raise RefusedRequest(401, "unauthorized", _NO_TOKEN)


def _check_local(headers: Headers, origin: str | None) -> None:
    """Refuse requests from other machines or from pages of other sites, on a server without tokens."""
    if any(name.startswith(FORWARDED) for name in headers):
        raise RefusedRequest(
            403, "forwarded", "Without a token the server refuses requests through proxies: start it with a token."
        )
    host = headers.get("host", "")
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    if name.lower() not in _LOOPBACK:
        raise RefusedRequest(403, "foreign_host", "Without a token the server answers only requests to localhost.")
    if origin is not None and origin.lower() != f"http://{host}".lower():
        raise RefusedRequest(
            403, "foreign_origin", "Without a token the server refuses requests from other sites' pages."
        )


async def _received(receive: Receive) -> Receive:
    """Receive a whole body; return a `receive` that replays it.

    Raises:
        Refused: the body is too long.
    """
    messages: list[Message] = []
    size, more = 0, True
    while more:
        message = await receive()
        messages.append(message)
        size += len(message.get("body", b""))
        if size > LARGEST_BODY:
            raise RefusedRequest(413, "too_large", f"A request may have at most {LARGEST_BODY:,} bytes.")
        more = bool(message.get("more_body"))

    async def again() -> Message:
        return messages.pop(0) if messages else await receive()

    return again
