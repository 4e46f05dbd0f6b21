"""A connection to one page's DevTools, for inspecting a page that is driven by other code."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from typing import Any, Self


class PageConnection:
    """A sender of commands like Playwright's `CDPSession`, without events. Created by `PageConnection.open`."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._reader = asyncio.ensure_future(self._read())

    @classmethod
    async def open(cls, port: int, target: str) -> Self:
        """Connect to a page.

        Args:
            port: DevTools port of a browser on this machine.
            target: target ID of the page.
        """
        from websockets.asyncio.client import connect

        address = f"ws://127.0.0.1:{port}/devtools/page/{target}"
        return cls(await connect(address, max_size=None, proxy=None, compression=None))

    async def send(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a command and return its answer.

        Raises:
            ConnectionError: the page is gone.
            RuntimeError: the command was refused.
        """
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            if self._reader.done():
                raise ConnectionError("the page is gone")
            await self._socket.send(json.dumps({"id": number, "method": method, "params": params or {}}))
            told = await answer
        finally:
            self._waiting.pop(number, None)
        if "error" in told:
            raise RuntimeError(f"{method}: {told['error'].get('message')}")
        return dict(told["result"])

    async def close(self) -> None:
        """Close the connection."""
        await self._socket.close()
        await self._reader

    async def _read(self) -> None:
        with contextlib.suppress(Exception):  # either side has closed the connection
            async for text in self._socket:
                told = json.loads(text)
                waiting = self._waiting.get(told.get("id", 0))
                if waiting is not None and not waiting.done():
                    waiting.set_result(told)
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ConnectionError("the page is gone"))
