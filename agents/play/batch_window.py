"""Batching of an agent's calls: episodes run at their own pace, but one call for many episodes is cheaper."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence

SHARE = 0.2
"""Waiting time for further episodes to join a call, as a share of the last call's duration."""


class BatchWindow:
    """Decides when the agent is asked for the waiting episodes.

    Args:
        first: assumed duration of the first call, in seconds.
    """

    def __init__(self, first: float = 0.0) -> None:
        self.last_call = first
        """Duration of the last call, in seconds."""
        self._ended = 0.0

    def left(self, since: Sequence[float]) -> float:
        """Return the seconds until the call is due for episodes waiting since the given times (`time.monotonic`).

        A call takes long, a step of the environment does not: episodes that waited during a call still wait a little
        after it, for the episodes that the call has set in motion.
        """
        return max(0.0, max(min(since), self._ended) + SHARE * self.last_call - time.monotonic())

    def due(self, since: Sequence[float], *, moving: bool) -> bool:
        """Whether to ask now for episodes waiting since the given times; `moving`: others may still join them."""
        return bool(since) and (not moving or self.left(since) == 0)

    @contextlib.contextmanager
    def call(self) -> Iterator[None]:
        """Measure the duration of the call made within the context."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self._ended = time.monotonic()
            self.last_call = self._ended - begun
