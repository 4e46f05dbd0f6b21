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


async def settle(tab: Tab, bounds: Bounds, before: frozenset[object] = frozenset()) -> bool:
    """Wait until the tab is quiet: no navigation or load under way, the action's requests answered, the DOM still.

    Args:
        tab: the tab that was acted on.
        bounds: what waiting may cost at most.
        before: requests that were already under way before the action; those aren't waited for.

    Returns:
        True when all became quiet, False when a bound was reached first.
    """
    start = time.monotonic()
    load_end, network_end, quiet_end = (start + bound for bound in (bounds.load, bounds.network, bounds.quiet))
    while True:
        while tab.busy and (left := load_end - time.monotonic()) > 0:
            await _change(tab, left)
            quiet_end = time.monotonic() + bounds.quiet
        while tab.requests - before and not tab.busy and (left := network_end - time.monotonic()) > 0:
            await _change(tab, left)
            quiet_end = time.monotonic() + bounds.quiet
        if tab.crashed:
            raise EnvError("The page crashed.")
        left = max(quiet_end - time.monotonic(), 0.05)
        try:
            quiet = await tab.call("settle", frames=bounds.frames, bound=left * 1000)
        except Exception as error:
            if not page_went_away(error) or time.monotonic() > load_end:
                raise
            continue
        now = time.monotonic()
        loading = bool(tab.busy) and now < load_end
        fetching = bool(tab.requests - before) and now < network_end
        if not loading and not fetching:
            return bool(quiet) and not tab.busy and not (tab.requests - before)


async def _change(tab: Tab, seconds: float) -> None:
    tab.changed.clear()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(tab.changed.wait(), seconds)
    if tab.crashed:
        raise EnvError("The page crashed.")
