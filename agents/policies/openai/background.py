"""An event loop on a thread of its own, for synchronous code that makes many requests at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

_Result = TypeVar("_Result")


class Background:
    """A running event loop. Its thread ends with `close`, or with the process."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Run the coroutine on the loop and wait for its result, from any thread but the loop's own.

        Raises:
            RuntimeError: the loop was closed.
        """
        if self._loop.is_closed():
            work.close()
            raise RuntimeError("This policy was closed; make a new one.")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:  # such as Ctrl-C while waiting: the requests stop too
            future.cancel()
            raise

    def close(self) -> None:
        """End the loop and its thread. Safe to call twice."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(timeout=5)
            self._loop.close()
