"""Decides when a page has settled after an action: by events, within bounds, never by sleeping.

Navigations and requests are watched here; the DOM is watched in the page (`page/settle.js`), and so are the short
timers that the action's events set (`page/timers.js`). Workers and sockets can't be seen: if nothing has happened yet
though something should, their answer is inferred from loading indicators and from the page's listeners for this kind of
action (`page/loading.js`).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

from selfsurf.browser_env.actions import Action, Click, Drag, Fill, Hover, Press, Scroll, Select, Type, Upload
from selfsurf.browser_env.errors import PAGE_CRASHED, EnvError
from selfsurf.browser_env.session.determinism import DeterministicTab
from selfsurf.browser_env.session.page_script import PageScript
from selfsurf.browser_env.session.tab import Tab

T = TypeVar("T")

FRAME_BOUND = 3.0
"""Seconds for a frame of another origin to answer; otherwise it is left out."""

DOCUMENTS = 20
"""Documents in a row after which the next is not waited for: the page goes on loading itself."""

Hint: TypeAlias = Literal["", "enter", "button", "text", "hover", "input"]
"""Actions to which pages may react late: Enter was pressed, a button was clicked, a field's text was changed, the
mouse was moved over something, another input. Empty for what is done to the browser."""


def hint_of(action: Action) -> Hint:
    """Return which kind of late reaction an action may cause."""
    match action:
        case Press(key=key) if key.lower() in ("enter", "return"):
            return "enter"
        case Type(text=text) if text.endswith("\n"):
            return "enter"
        case Type() | Fill() | Press():
            return "text"
        case Click():
            return "button"
        case Hover():
            return "hover"
        case Drag() | Scroll() | Select() | Upload():
            return "input"
    return ""


@dataclass(frozen=True)
class Bounds:
    """How long settling may take at most, in seconds."""

    load: float = 10.0
    """For a navigation to commit and load."""
    network: float = 3.0
    """For requests that the action started."""
    quiet: float = 1.0
    """For the DOM to stop changing."""
    busy: float = 3.0
    """For loading indicators to go (`aria-busy`, spinners, "Loading ..."); a permanent one is waited for once."""
    reaction: float = 1.3
    """For timers of up to 600 ms that the action's events have set, and those that these set, all together; and for a
    first reaction to Enter, if the page listens for it and nothing has happened yet. Buttons with listeners, popups
    that are announced or just opening, pictures without a box, and changes of a field with suggestions get two fifths
    of it."""
    frames: int = 1
    """Frames in a row without a DOM change that count as quiet."""


class Settling:
    """One tab settling after an action: what is still pending, and how much longer to wait for it.

    Args:
        tab: the tab that was acted on.
        bounds: how long to wait at most.
        since: the tab's clock before the action; what was pending before isn't waited for.
        hint: which kind of late reaction the action may cause.
        acted_in: the script in the frame that was acted in, if that is known.
    """

    def __init__(
        self, tab: Tab, bounds: Bounds, since: int = -1, hint: Hint = "", acted_in: PageScript | None = None
    ) -> None:
        self.tab = tab
        self._frame = None if acted_in is tab.main else acted_in
        self.bounds = bounds
        self.since = since
        self._hint: Hint = hint
        self._timers_left = bounds.reaction if hint and not isinstance(tab, DeterministicTab) else 0.0
        """Seconds for which timers are still waited for, by the page's clock."""
        self._documents = tab.documents
        self._passed = False
        self._announced = False
        self._opened = False
        start = time.monotonic()
        self._load_end = start + bounds.load
        self._network_end = start + bounds.network
        self._quiet_end = start + bounds.quiet
        self._busy_end = start + bounds.busy

    async def wait_for_traffic(self) -> None:
        """Wait for navigations, loads and requests to end.

        Raises:
            EnvError: the page crashed.
        """
        tab, since = self.tab, self.since
        while tab.loading(since) and (left := self._load_until() - time.monotonic()) > 0:
            await self._change(left)
        while tab.fetching(since) and not tab.loading(since) and (left := self._fetch_until() - time.monotonic()) > 0:
            await self._change(left)
        if tab.crashed:
            raise EnvError(PAGE_CRASHED)
        if tab.loading(since) and self.is_late():
            await self._stop_navigation()
        if isinstance(tab, DeterministicTab) and not self._passed:  # once per step, however often the page is settled
            self._passed = await tab.pass_step()
            if not self._passed and not self.is_over():
                await self.wait_for_traffic()

    def _load_until(self) -> float:
        """Return until when loads are waited for: once a page is there, its pictures and frames are only requests."""
        parsed = self.tab.parsed_at
        if self._reloads():
            return 0.0
        if parsed is None:
            return self._load_end
        return min(self._load_end, max(parsed + self.bounds.network, self._parts_end()))

    def _fetch_until(self) -> float:
        return 0.0 if self._reloads() else self._parts_end()

    def _parts_end(self) -> float:
        """Return until when requests are waited for: whoever opened the page may have waited for them already."""
        return min(self._network_end, self.tab.begun_at + self.bounds.network)

    def _reloads(self) -> bool:
        """Does the page load itself again and again?"""
        return self.tab.documents - self._documents > DOCUMENTS

    async def within_load_bound(self, asking: Coroutine[Any, Any, T]) -> T:
        """Await a call to the page; a navigation that begins meanwhile delays it by the bound for loading at most."""
        task = asyncio.ensure_future(asking)
        try:
            while not (await asyncio.wait({task}, timeout=max(self._load_end - time.monotonic(), 0.2)))[0]:
                await self._stop_navigation()
            return task.result()
        finally:
            task.cancel()

    async def _stop_navigation(self) -> None:
        """Stop a navigation whose server hasn't answered: otherwise the current page couldn't be called."""
        if self.tab.unanswered():
            await self.tab.protocol.send("Page.stopLoading")

    async def _change(self, seconds: float) -> None:
        self.tab.changed.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.tab.changed.wait(), seconds)
        self._quiet_end = time.monotonic() + self.bounds.quiet
        if self.tab.crashed:
            raise EnvError(PAGE_CRASHED)

    def quiet_ms_left(self) -> float:
        """Return how many milliseconds are left for the DOM to become quiet."""
        return max(self._quiet_end - time.monotonic(), 0.05) * 1000

    def is_late(self) -> bool:
        """Has the bound for loading been exceeded?"""
        return time.monotonic() > self._load_end

    def is_over(self) -> bool:
        """Is nothing pending, or no time left to wait for it?"""
        now = time.monotonic()
        loading, fetching = self.tab.loading(self.since), self.tab.fetching(self.since)
        return not (loading and now < self._load_until()) and not (fetching and now < self._fetch_until())

    async def wait_for_reaction(self, raw: dict[str, Any]) -> bool:
        """Wait for a likely reaction although all is quiet; return whether to observe the page again.

        Args:
            raw: the pass: `busy`, does the page show that it is loading; `coming`, are pictures to come that have no
                box yet; `opening`, do elements take no pointer because they are just opening; `owed`, are timers of the
                action pending; `announced`, is a popup to come; `stirred`, has it changed since the action; `due`, to
                which actions the focused element may react late.
        """
        page = self.tab.main
        if raw["coming"]:
            await page.call("picturesCame", bound=self.bounds.reaction * 400)
            self._quiet_end = time.monotonic() + self.bounds.quiet
            return True
        if raw["opening"] and not self._opened and self.tab.scripted:
            self._opened = True
            await page.call("opened", bound=self.bounds.reaction * 400)
            self._quiet_end = time.monotonic() + self.bounds.quiet
            return True
        if self._frame is not None and not raw["busy"]:
            try:
                async with asyncio.timeout(FRAME_BOUND):
                    page, raw = self._frame, await self._frame.call("signs")
            except Exception:  # the frame hangs or is gone; what it has to say is not waited for
                self._frame = None
        if raw["owed"] and self._timers_left > 0 and not self.tab.fetching(self.since):  # or the answer was waited for
            began, clock = self.tab.seconds, self.tab.clock
            await page.call("timersRan", bound=self._timers_left * 1000)
            if self.tab.clock == clock or time.monotonic() > self._network_end:  # requests have a bound of their own
                self._timers_left -= self.tab.seconds - began
            self._quiet_end = time.monotonic() + self.bounds.quiet
            return True
        left = self._busy_end - time.monotonic()
        if raw["busy"] and left > 0:
            await page.call("loaded", bound=left * 1000)
            self._quiet_end = time.monotonic() + self.bounds.quiet
            return True
        announces = self._hint in ("button", "hover", "enter")
        if raw["announced"] and announces and not self._announced and not isinstance(self.tab, DeterministicTab):
            self._announced = True
            await page.call("popupCame", bound=self.bounds.reaction * 400)
            self._quiet_end = time.monotonic() + self.bounds.quiet
            return True
        hint, self._hint = self._hint, ""
        if isinstance(self.tab, DeterministicTab):
            return False  # its time doesn't pass by itself
        if hint not in raw["due"] or (raw["stirred"] and hint != "text") or self.tab.loading(self.since):
            return False
        clock = self.tab.clock
        if not await page.call("reacts", hint=hint):
            return False
        bound = self.bounds.reaction * (1 if hint == "enter" else 0.4)
        changed = await self._first_sign({page, self.tab.main}, bound)
        self._quiet_end = time.monotonic() + self.bounds.quiet
        return changed or self.tab.clock != clock

    async def _first_sign(self, pages: set[PageScript], bound: float) -> bool:
        """Wait for the first change, of a frame or of the page around it, which it may have told something."""
        calls = [asyncio.ensure_future(page.call("firstSign", bound=bound * 1000, unseen=True)) for page in pages]
        try:
            done, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
            return any(call.result() for call in done)
        finally:
            for call in calls:
                call.cancel()
