"""Browser calls that run to completion even if the caller is cancelled, because interrupted calls cost the page."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

HURRY = 0.2
"""Seconds between two attempts to end a cancelled call sooner."""


class WholeCalls:
    """A runner of one provider's calls, one at a time and without interruption."""

    def __init__(self) -> None:
        self._under_way: asyncio.Future[Any] | None = None

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Await a coroutine. If the caller is cancelled, the coroutine continues and the next call waits for it."""
        self._under_way = asyncio.ensure_future(work)
        self._under_way.add_done_callback(lambda done: None if done.cancelled() else done.exception())
        try:
            result: T = await asyncio.shield(self._under_way)
        except asyncio.CancelledError:
            raise
        except BaseException:
            self._under_way = None
            raise
        self._under_way = None
        return result

    async def ended(self, hurry: Callable[[], Awaitable[None]]) -> asyncio.Future[Any] | None:
        """Wait until a call whose caller was cancelled is over, and return it; None if there is none.

        Args:
            hurry: called repeatedly meanwhile, to end the call sooner.
        """
        if (work := self._under_way) is None:
            return None
        while not work.done():
            await hurry()
            await asyncio.wait({work}, timeout=HURRY)
        self._under_way = None
        return work

    def cancel(self) -> None:
        """Interrupt a call whose caller was cancelled."""
        if self._under_way is not None:
            self._under_way.cancel()
