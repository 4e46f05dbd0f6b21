"""When an agent is asked for several episodes at once: each goes at its own pace, but one call for many is cheaper."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence

SHARE = 0.2
"""The share of its own last duration that a call waits for further episodes to join it."""


class Gather:
    """Decides when those that wait are asked for.

    Args:
        first: seconds that the first call is thought to take.
    """

    def __init__(self, first: float = 0.0) -> None:
        self.last_call = first
        """Seconds that the last call took."""
        self._ended = 0.0

    def left(self, since: Sequence[float]) -> float:
        """Seconds until episodes that wait since then (`time.monotonic`) have waited long enough for others.

        A call takes long, a step of the environment does not: what waited during a call still waits a little after
        it, for those that the call has set in motion.
        """
        return max(0.0, max(min(since), self._ended) + SHARE * self.last_call - time.monotonic())

    def due(self, since: Sequence[float], *, moving: bool) -> bool:
        """Whether to ask now for those that wait since then; `moving`: there are others that may join them."""
        return bool(since) and (not moving or self.left(since) == 0)

    @contextlib.contextmanager
    def call(self) -> Iterator[None]:
        """Make the call inside."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self._ended = time.monotonic()
            self.last_call = self._ended - begun
