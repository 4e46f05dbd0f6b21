"""Waiting for the consequences of an action: on events, within bounds, never by sleeping.

Navigations and requests are watched from here; the DOM is watched in the page (`page/settle.js`).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass

from browser_env.errors import EnvError
from browser_env.tab import Tab


@dataclass(frozen=True)
class Bounds:
    """The most that settling may cost, in seconds."""

    load: float = 10.0
    """For a navigation to commit and load."""
    network: float = 3.0
    """For requests that the action started."""
    quiet: float = 1.0
    """For the DOM to stop changing."""
    frames: int = 1
    """Frames in a row without a DOM change that count as quiet."""


class Watch:
    """What an action set going in a tab, and how much longer it may be waited for.

    Args:
        tab: the tab that was acted on.
        bounds: what waiting may cost at most.
        since: the tab's clock before the action; what was under way already isn't waited for.
    """

    def __init__(self, tab: Tab, bounds: Bounds, since: int = -1) -> None:
        self.tab = tab
        self.bounds = bounds
        self.since = since
        start = time.monotonic()
        self._load_end = start + bounds.load
        self._network_end = start + bounds.network
        self._quiet_end = start + bounds.quiet

    async def traffic(self) -> None:
        """Wait for navigations, loads and requests to end.

        Raises:
            EnvError: the page crashed.
        """
        tab, since = self.tab, self.since
        while tab.loading(since) and (left := self._load_end - time.monotonic()) > 0:
            await self._change(left)
        while tab.fetching(since) and not tab.loading(since) and (left := self._network_end - time.monotonic()) > 0:
            await self._change(left)
        if tab.crashed:
            raise EnvError("The page crashed.")

    async def _change(self, seconds: float) -> None:
        self.tab.changed.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.tab.changed.wait(), seconds)
        self._quiet_end = time.monotonic() + self.bounds.quiet
        if self.tab.crashed:
            raise EnvError("The page crashed.")

    def quiet_left(self) -> float:
        """Return how many milliseconds the DOM may still take to become quiet."""
        return max(self._quiet_end - time.monotonic(), 0.05) * 1000

    def late(self) -> bool:
        """Has the time for loading run out?"""
        return time.monotonic() > self._load_end

    def over(self) -> bool:
        """Is there nothing more to wait for, or no time left to wait for it?"""
        now = time.monotonic()
        loading, fetching = self.tab.loading(self.since), self.tab.fetching(self.since)
        return not (loading and now < self._load_end) and not (fetching and now < self._network_end)
