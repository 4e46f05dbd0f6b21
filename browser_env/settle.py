"""Waiting for the consequences of an action: on events, within bounds, never by sleeping."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass

from browser_env.errors import EnvError
from browser_env.tab import Tab, page_went_away


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


async def settle(tab: Tab, bounds: Bounds, since: int = -1) -> bool:
    """Wait until the tab is quiet: no navigation or load under way, the action's requests answered, the DOM still.

    Args:
        tab: the tab that was acted on.
        bounds: what waiting may cost at most.
        since: the tab's clock before the action; what was under way already isn't waited for.

    Returns:
        True when all became quiet, False when a bound was reached first.
    """
    start = time.monotonic()
    load_end, network_end, quiet_end = (start + bound for bound in (bounds.load, bounds.network, bounds.quiet))
    while True:
        while tab.loading(since) and (left := load_end - time.monotonic()) > 0:
            await _change(tab, left)
            quiet_end = time.monotonic() + bounds.quiet
        while tab.fetching(since) and not tab.loading(since) and (left := network_end - time.monotonic()) > 0:
            await _change(tab, left)
            quiet_end = time.monotonic() + bounds.quiet
        if tab.crashed:
            raise EnvError("The page crashed.")
        if tab.loading(since) and await tab.unanswered():
            await tab.protocol.send("Page.stopLoading")  # else the page that is still there could not be asked
        left = max(quiet_end - time.monotonic(), 0.05)
        try:
            quiet = await tab.call("settle", frames=bounds.frames, bound=left * 1000)
        except Exception as error:
            if not page_went_away(error) or time.monotonic() > load_end:
                raise
            continue
        now = time.monotonic()
        loading, fetching = tab.loading(since), tab.fetching(since)
        if not (loading and now < load_end) and not (fetching and now < network_end):
            return bool(quiet) and not loading and not fetching


async def _change(tab: Tab, seconds: float) -> None:
    tab.changed.clear()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(tab.changed.wait(), seconds)
    if tab.crashed:
        raise EnvError("The page crashed.")
