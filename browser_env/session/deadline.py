"""The deadline of a step or a reset: early if the page hangs or crashes, late if the machine is crowded.

A page counts as hung when its main thread leaves a trivial call unanswered for a while. A slow page answers between
two of its tasks, so only a single endless, or very long, task looks like this.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from selfsurf.browser_env.errors import PAGE_CRASHED, EnvError
from selfsurf.browser_env.session.patience import TICK, limited, share

if TYPE_CHECKING:
    from selfsurf.browser_env.session.session import Session
    from selfsurf.browser_env.session.tab import Tab

FIRST_LOOK = 0.5
"""Seconds before a page is first probed: most steps are over by then."""

PAUSE = 1.0
"""Seconds between an answer and the next probe."""


@contextlib.asynccontextmanager
async def deadline(
    seconds: float, hang: float, session: Callable[[], Session | None]
) -> AsyncIterator[asyncio.Timeout]:
    """Limit how long the body may take.

    Args:
        seconds: how long it may take on a machine that isn't crowded (`patience.share`).
        hang: how long the active page may leave a trivial call unanswered, counted likewise.
        session: returns the session to watch, or None while there is none.

    Yields:
        The timeout, which can be extended: a person who is asked takes time.

    Raises:
        EnvError: time is up, or the page hangs or has crashed. The message says which.
    """
    loop = asyncio.get_running_loop()
    reasons: list[str] = []
    watching: list[asyncio.Task[None]] = []

    async def watch(limit: asyncio.Timeout) -> None:
        reasons.append(await _fault(session, hang))
        limit.reschedule(loop.time())

    try:
        async with limited(seconds) as limit:
            begin = loop.call_later(FIRST_LOOK, lambda: watching.append(loop.create_task(watch(limit))))
            try:
                yield limit
            finally:
                begin.cancel()
                for task in watching:
                    task.cancel()
    except TimeoutError:
        if not limit.expired():
            raise
        why = reasons[0] if reasons else f"no answer within {seconds:g} s: the page or the browser hangs"
        raise EnvError(why) from None


async def _fault(session: Callable[[], Session | None], hang: float) -> str:
    """Wait until the active page hangs or crashes, and return which."""
    while True:
        current = session()
        tab = current.active if current is not None and current.tabs else None
        if tab is not None:
            if tab.crashed:
                return PAGE_CRASHED
            try:
                answered = await _answers(tab, hang)
            except Exception:
                answered = True  # the page is navigating or closed, which its user will notice
            if not answered:
                if tab.crashed:
                    return PAGE_CRASHED
                if session() is current and current is not None and current.active is tab and not tab.unanswered():
                    return f"the page hangs: it did not answer for {hang:g} s"
        await asyncio.sleep(PAUSE)


async def _answers(tab: Tab, hang: float) -> bool:
    """Does a page answer a trivial call in time?"""
    asking = asyncio.ensure_future(tab.protocol.send("Runtime.evaluate", {"expression": "0"}))
    try:
        while hang > 0 and not tab.crashed:
            done, _ = await asyncio.wait({asking}, timeout=min(TICK, hang))
            if done:
                asking.result()
                return True
            hang -= TICK * share()
        return False
    finally:
        asking.cancel()
