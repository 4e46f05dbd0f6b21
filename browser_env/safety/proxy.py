"""A SOCKS proxy for all connections of a session, which connects only where the rules allow.

The proxy sees every connection that Chromium makes: navigations, redirects, popups, frames, subresources, websockets
and all kinds of workers. It resolves names itself and connects to the very address that it has checked, so DNS can't
change the answer in between. Chromium keeps connections open as usual, so there is no work per request. Paths are not
visible to the proxy, because the traffic is encrypted.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ipaddress
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from selfsurf.browser_env.safety import network
from selfsurf.browser_env.safety.network import Address, Rules, as_address, clean_host, host_and_port

CONNECT_TIMEOUT = 10.0
"""Maximum seconds for one address of a host to respond."""

NAMES_KEPT = 60.0
"""Seconds for which the addresses of a name are cached."""

_CHUNK = 1 << 18
_LOOPBACK: tuple[Address, ...] = (ipaddress.IPv4Address("127.0.0.1"), ipaddress.IPv6Address("::1"))


class ForbiddenConnection(Exception):
    """The rules forbid a connection; the message gives the reason."""


class FilteringProxy:
    """A SOCKS5 server on loopback for one session. Created by `FilteringProxy.open`.

    Args:
        rules: rules on where connections may go.
        upstream: another proxy to connect through, as Playwright's `proxy` argument.

    Raises:
        ValueError: the upstream proxy is neither an HTTP nor a SOCKS5 proxy.
    """

    def __init__(self, rules: Rules, upstream: Mapping[str, Any] | None = None) -> None:
        self.rules = rules
        self.on_refused: Callable[[str, int, str], None] = lambda host, port, why: None
        """Callback for refused connections, called with host, port and reason."""
        self.claimed: Callable[[str], Awaitable[bool]] | None = None
        """Callback during a task's setup: whether a private host turns out to be the task's own; None at other times.
        """
        self.failures: dict[tuple[str, int | None], str] = {}
        """Last connection failure by host and port, in the words that Chromium uses without a proxy."""
        self._upstream = _Upstream(upstream) if upstream else None
        self._server: asyncio.Server
        self._open: set[asyncio.Task[Any]] = set()
        self._names: dict[str, tuple[float, list[Address]]] = {}
        self._was_public: set[str] = set()

    @classmethod
    async def open(cls, rules: Rules, upstream: Mapping[str, Any] | None = None, port: int = 0) -> FilteringProxy:
        """Start a proxy, on a free port if none is given.

        Raises:
            OSError: the port is taken.
        """
        proxy = cls(rules, upstream)
        proxy._server = await asyncio.start_server(proxy._serve, "127.0.0.1", port)
        return proxy

    @property
    def settings(self) -> dict[str, str]:
        """Playwright's `proxy` argument that routes a context through this proxy.

        Chromium sends requests to loopback and link-local addresses past every proxy unless the bypass list contains
        `<-loopback>`, and Playwright leaves `<-loopback>` out of a list that names a loopback host.
        """
        port = self._server.sockets[0].getsockname()[1]
        direct = () if self._upstream else self.rules.direct
        return {"server": f"socks5://127.0.0.1:{port}", "bypass": ",".join(["<-loopback>", *direct])}

    async def refusal_of(self, url: str) -> str:
        """Return why a URL may not be opened; empty if it may, or if it has no host."""
        host, port = host_and_port(url)
        if not host:
            return ""
        try:
            await self._addresses(host, port)
        except ForbiddenConnection as refusal:
            return str(refusal)
        except OSError:
            pass  # the name doesn't exist, which the browser will report
        return ""

    async def _addresses(self, host: str, port: int | None) -> list[Address]:
        """Return the addresses at which a host may be reached.

        Raises:
            Refused: the rules forbid the connection.
            OSError: the name has no address.
        """
        why = self.rules.refuses_name(host, port)
        if why:
            raise ForbiddenConnection(why)
        found = await self._resolve(host)
        if self.rules.safety.allow_private:
            return found
        public = [address for address in found if not network.is_private(address)]
        if public:
            self._was_public.add(host)
            return public
        if not self.rules.may_be_private(host, port) and not (self.claimed and await self.claimed(host)):
            raise ForbiddenConnection(network.PRIVATE)
        if host in self._was_public:
            raise ForbiddenConnection(network.REBOUND)
        return found

    async def _resolve(self, host: str) -> list[Address]:
        literal = as_address(host)
        if literal is not None:
            return [literal]
        if network.is_loopback_name(host):
            return list(_LOOPBACK)
        until, kept = self._names.get(host, (0.0, []))
        if until > time.monotonic():
            return kept
        found = await lookup(host)
        self._names[host] = (time.monotonic() + NAMES_KEPT, found)
        return found

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            host, port = await _read_request(reader, writer)
            try:
                inner, outer = await self._connect(host, port)
            except ForbiddenConnection as refusal:
                self.failures[host, port] = f"blocked, {refusal}"
                self.on_refused(host, port, str(refusal))
                writer.write(_answer(2))
                return
            except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
                self.failures[host, port] = _net_error(error)
                writer.write(_answer(5))
                return
            writer.write(_answer(0))
            await asyncio.gather(_relay(reader, outer), _relay(inner, writer))
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # one end has closed, or the proxy is closing
        finally:
            self._open.discard(task)
            writer.close()

    async def _connect(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._upstream is not None:
            with contextlib.suppress(OSError):  # only the upstream proxy may be able to resolve the name
                await self._addresses(host, port)
            async with asyncio.timeout(CONNECT_TIMEOUT):
                return await self._upstream.connect(host, port)
        addresses = await self._addresses(host, port)
        failure: Exception = OSError(f"{host} has no address")
        for address in addresses:
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT):
                    return await asyncio.open_connection(str(address), port, limit=_CHUNK)
            except (OSError, TimeoutError) as error:
                failure = error
        raise failure

    async def close(self) -> None:
        """Stop the proxy and close all connections. May be called more than once."""
        self._server.close()
        for task in list(self._open):
            task.cancel()
        if self._open:
            await asyncio.wait(set(self._open), timeout=1)


class _Upstream:
    """An upstream proxy from the user's own settings."""

    def __init__(self, proxy: Mapping[str, Any]) -> None:
        server = str(proxy["server"])
        parts = urlsplit(server if "://" in server else f"http://{server}")
        if parts.scheme not in ("http", "socks5") or not parts.hostname:
            raise ValueError(
                f"The proxy {server!r} is neither http:// nor socks5://, so safety rules can't be enforced with it."
            )
        self._socks = parts.scheme == "socks5"
        self._host, self._port = parts.hostname, parts.port or (1080 if self._socks else 80)
        if proxy.get("bypass"):
            raise ValueError(
                "A proxy's bypass evades the safety rules: leave out the bypass, or list no hosts in Safety."
            )
        self._user = str(proxy.get("username") or unquote(parts.username or ""))
        self._password = str(proxy.get("password") or unquote(parts.password or ""))

    async def connect(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(self._host, self._port, limit=_CHUNK)
        try:
            await (self._by_socks if self._socks else self._by_http)(reader, writer, host, port)
        except BaseException:
            writer.close()
            raise
        return reader, writer

    async def _by_http(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int) -> None:
        target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        head = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n"
        if self._user:
            token = base64.b64encode(f"{self._user}:{self._password}".encode()).decode()
            head += f"Proxy-Authorization: Basic {token}\r\n"
        writer.write(f"{head}\r\n".encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        if answer.split(b" ", 2)[1:2] != [b"200"]:
            raise OSError("the proxy refused")

    async def _by_socks(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int) -> None:
        writer.write(b"\x05\x01\x02" if self._user else b"\x05\x01\x00")
        _, method = await reader.readexactly(2)
        if method == 2:
            user, password = self._user.encode(), self._password.encode()
            writer.write(bytes([1, len(user)]) + user + bytes([len(password)]) + password)
            if (await reader.readexactly(2))[1] != 0:
                raise OSError("the proxy refused the password")
        elif method != 0:
            raise OSError("the proxy requires another kind of authentication")
        name = host.encode()
        writer.write(b"\x05\x01\x00\x03" + bytes([len(name)]) + name + port.to_bytes(2, "big"))
        _, code, _, kind = await reader.readexactly(4)
        await reader.readexactly(
            2 + {1: 4, 4: 16}.get(kind, 0) + (0 if kind != 3 else (await reader.readexactly(1))[0])
        )
        if code != 0:
            raise OSError("the proxy refused")


async def lookup(host: str) -> list[Address]:
    """Return the addresses of a name, as resolved by the system.

    Raises:
        OSError: the name has no address.
    """
    answers = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    found = (as_address(str(answer[4][0])) for answer in answers)
    return list(dict.fromkeys(address for address in found if address is not None))


async def _read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[str, int]:
    """Read a SOCKS5 client's greeting and request; return the requested host and port."""
    version, methods = await reader.readexactly(2)
    if version != 5:
        raise ValueError("not a SOCKS client")
    await reader.readexactly(methods)
    writer.write(b"\x05\x00")
    _, command, _, kind = await reader.readexactly(4)
    if kind == 3:
        host = (await reader.readexactly((await reader.readexactly(1))[0])).decode("ascii", "replace")
    else:
        host = str(ipaddress.ip_address(await reader.readexactly(4 if kind == 1 else 16)))
    port = int.from_bytes(await reader.readexactly(2), "big")
    if command != 1:
        writer.write(_answer(7))
        raise ValueError("not a request to connect")
    return clean_host(host), port


def _net_error(error: Exception) -> str:
    if isinstance(error, socket.gaierror):
        return "net::ERR_NAME_NOT_RESOLVED"
    if isinstance(error, ConnectionRefusedError):
        return "net::ERR_CONNECTION_REFUSED"
    return "net::ERR_CONNECTION_TIMED_OUT" if isinstance(error, TimeoutError) else "net::ERR_CONNECTION_FAILED"


def _answer(code: int) -> bytes:
    return bytes([5, code, 0, 1, 0, 0, 0, 0, 0, 0])


async def _relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
    finally:
        with contextlib.suppress(OSError, RuntimeError):
            writer.close()
