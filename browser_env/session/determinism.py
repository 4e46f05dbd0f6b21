"""Deterministic pages: clock, timers, animations and random numbers depend only on the seed and the actions.

A script that runs before the page's own replaces them in every frame. Time stands still between steps, and advances by
a fixed amount with every step, as fast as the page can follow. Chromium's virtual time
(`Emulation.setVirtualTimePolicy`) is no alternative: it stops the frames that screenshots and input wait for, and
applies to one process of a page at a time.

Not covered: workers, videos and animated pictures, smooth scrolling, the order in which a network answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from selfsurf.browser_env.browser.page_script import document_was_replaced, read_script
from selfsurf.browser_env.session.tab import Tab

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page

T = TypeVar("T")

STEP_TIME = 100.0
"""Milliseconds of page time that pass while a step settles; a `wait` action adds its own."""

CONTEXT = {"timezone_id": "UTC", "locale": "en-US"}
"""Arguments of `Browser.new_context` that are fixed unless the user gives others."""

FRAME_BOUND = 3.0
"""Seconds that frames of other origins may take to follow the clock."""

STUCK = 0.5
"""Seconds without progress after which a task's `setup` is assumed to wait for the page's time."""

_REST = "(() => window[Symbol.for('selfsurf.clock')]?.rest())()"
_ADVANCE = "(end) => window[Symbol.for('selfsurf.clock')]?.advance(end)"


class Clock:
    """The clock of an episode, shared by its tabs."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.now = 0.0
        """Milliseconds since the episode began."""

    async def install(self, context: BrowserContext) -> None:
        """Install the clock in every document that the context will open."""
        await context.add_init_script(f"({read_script('determinism')})({self.seed})")


class DeterministicTab(Tab):
    """A tab on the episode's clock."""

    clock_of_episode: Clock
    _begin_script: str | None = None
    _settled = -1

    @classmethod
    async def attach(cls, page: Page, clock: Clock, probe: str) -> DeterministicTab:
        """Attach to a page and set its clock. `probe` is the event name for `install_listeners`."""
        tab = await cls.open(page, probe)
        assert isinstance(tab, DeterministicTab)
        tab.clock_of_episode = clock
        await tab._tell_new_documents()
        return tab

    async def _tell_new_documents(self) -> None:
        """Make future documents begin at the current time of the clock."""
        at = json.dumps(self.clock_of_episode.now)
        source = (
            f"window[Symbol.for('selfsurf.clock')] ? window[Symbol.for('selfsurf.clock')].begin({at})"
            f" : Object.defineProperty(window, Symbol.for('selfsurf.begin'), {{value: {at}}})"
        )
        old = self._begin_script
        answer = await self.protocol.send("Page.addScriptToEvaluateOnNewDocument", {"source": source})
        self._begin_script = answer["identifier"]
        if old is not None:
            await self.protocol.send("Page.removeScriptToEvaluateOnNewDocument", {"identifier": old})

    async def advance(self, milliseconds: float) -> None:
        """Advance the page's time by `milliseconds`."""
        clock = self.clock_of_episode
        clock.now += milliseconds
        await self._tell_new_documents()
        await self._evaluate(f"({_ADVANCE})({json.dumps(clock.now)})")
        main = self.page.main_frame
        for frame in [frame for frame in self.page.frames if frame is not main]:
            with contextlib.suppress(Exception):  # detached, or hung
                await asyncio.wait_for(frame.evaluate(_ADVANCE, clock.now), FRAME_BOUND)

    async def pass_step(self) -> bool:
        """Advance time by a step and return True, or return False while the step's loads and requests are pending."""
        await self._evaluate(_REST)
        if self.loading(self._settled) or self.fetching(self._settled):
            return False  # time passes once they have arrived
        await self.advance(STEP_TIME)
        self._settled = self.clock
        return True

    async def _evaluate(self, expression: str) -> None:
        try:
            await self.protocol.send("Runtime.evaluate", {"expression": expression, "awaitPromise": True})
        except Exception as error:
            if not document_was_replaced(error):
                raise  # a document that replaces this one begins at the new time


async def run_with_time(work: Coroutine[Any, Any, T], tab: Callable[[], Tab]) -> T:
    """Run a task's setup, advancing the page's time while the setup waits and nothing is loading."""
    task = asyncio.ensure_future(work)
    try:
        while not task.done():
            await asyncio.wait([task], timeout=STUCK)
            page = tab()
            waits = not task.done() and not page.loading(-1) and not page.fetching(-1)
            if waits and isinstance(page, DeterministicTab):
                await page.advance(STEP_TIME)
        return task.result()
    finally:
        task.cancel()
