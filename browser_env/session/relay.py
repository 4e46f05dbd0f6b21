"""Relay from a browser's DevTools pipe to a secret WebSocket address: `python relay.py READ WRITE`.

READ and WRITE are the two ends of the browser's pipe. A debugging port discloses its address to anyone who asks, every
user of the machine included. So the browser has a pipe, and this process, which lives as long as the browser, relays it
to a WebSocket with a secret path. The address is the first line of output. Each client has a session of its own, and
all its settings end with the session, even if the client was killed.

The file is run by its path, without the package, and so imports nothing from the package.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import secrets
import sys
from http import HTTPStatus
from typing import Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

LARGEST = 2**30
"""Maximum bytes of one message."""

_FIRST_OWN_ID = 2**30
"""First number of our own calls; clients number their calls from 1."""

_NO_SESSION = {"code": -32001, "message": "Session with given id not found."}


class Relay:
    """The relay between one browser and its clients.

    Args:
        reading: stream of messages from the browser.
        writing: stream of messages to the browser.
    """

    def __init__(self, reading: asyncio.StreamReader, writing: asyncio.StreamWriter) -> None:
        self.path = f"/{secrets.token_urlsafe(32)}"
        self._reading, self._writing = reading, writing
        self._numbers = itertools.count(_FIRST_OWN_ID)
        self._asked: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._roots: dict[str, ServerConnection] = {}
        """Clients by their root session, which represents the whole browser."""
        self._owners: dict[str, str] = {}
        """Root sessions by the sessions below them."""

    def check(self, connection: ServerConnection, request: Request) -> Response | None:
        """Reject clients that don't know the path."""
        known = secrets.compare_digest(request.path.encode(), self.path.encode())
        return None if known else connection.respond(HTTPStatus.NOT_FOUND, "")

    async def listen(self) -> None:
        """Pass on the browser's messages until the browser ends."""
        while True:
            try:
                said = (await self._reading.readuntil(b"\0"))[:-1]
            except asyncio.IncompleteReadError:
                return
            await self._pass_on(said)

    async def _pass_on(self, said: bytes) -> None:
        message = json.loads(said)
        if (future := self._asked.pop(message.get("id"), None)) is not None:
            future.set_result(message)
            return
        session = message.get("sessionId", "")
        root = self._owners.get(session, session)
        client = self._roots.get(root)
        if client is None:
            return
        params = message.get("params", {})
        if message.get("method") == "Target.attachedToTarget":
            self._owners[params["sessionId"]] = root
        elif message.get("method") == "Target.detachedFromTarget":
            self._owners.pop(params["sessionId"], None)
        if session == root:
            del message["sessionId"]
            said = json.dumps(message, separators=(",", ":")).encode()
        with contextlib.suppress(ConnectionClosed):
            await client.send(said, text=True)

    async def serve(self, client: ServerConnection) -> None:
        """Serve a client until it disconnects."""
        root = (await self._ask("Target.attachToBrowserTarget"))["result"]["sessionId"]
        self._roots[root] = client
        try:
            async for said in client:
                message = json.loads(said)
                session = message.setdefault("sessionId", root)
                if session != root and self._owners.get(session) != root:
                    await client.send(json.dumps({"id": message["id"], "sessionId": session, "error": _NO_SESSION}))
                    continue
                self._send(message)
        except ConnectionClosed:
            pass
        finally:
            del self._roots[root]
            self._owners = {session: owner for session, owner in self._owners.items() if owner != root}
            await self._ask("Target.detachFromTarget", sessionId=root)

    async def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        self._asked[number] = asyncio.get_running_loop().create_future()
        self._send({"id": number, "method": method, "params": params})
        return await self._asked[number]

    def _send(self, message: dict[str, Any]) -> None:
        self._writing.write(json.dumps(message, separators=(",", ":")).encode() + b"\0")


async def main(read: int, write: int) -> None:
    """Relay until the browser ends."""
    loop = asyncio.get_running_loop()
    reading = asyncio.StreamReader(LARGEST)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reading), os.fdopen(read, "rb"))
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, os.fdopen(write, "wb"))
    relay = Relay(reading, asyncio.StreamWriter(transport, protocol, None, loop))
    server = await serve(
        relay.serve, "127.0.0.1", 0, process_request=relay.check, origins=[None], compression=None, max_size=LARGEST,
        ping_interval=None,
    )  # fmt: skip
    port = next(iter(server.sockets)).getsockname()[1]
    print(f"ws://127.0.0.1:{port}{relay.path}", flush=True)
    await relay.listen()
    os._exit(0)  # connected clients would wait for a browser that has ended


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
