"""Detection of when a page has settled after an action: by events, within time limits, never by sleeping.

Navigations and requests are watched here; the DOM is watched in the page (`page/settle.js`), and so are the short
timers that the action's events set (`page/timers.js`). Workers and sockets can't be observed: if nothing has happened
yet though something should have, their answer is inferred from loading indicators and from the page's listeners for
this kind of action (`page/loading.js`).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

from selfsurf.browser_env.actions import Action, Click, Drag, Fill, Hover, Press, Scroll, Select, Type, Upload
from selfsurf.browser_env.browser.page_script import PageScript
from selfsurf.browser_env.errors import PAGE_CRASHED, EnvError
from selfsurf.browser_env.session.determinism import DeterministicTab
from selfsurf.browser_env.session.tab import Tab

T = TypeVar("T")

FRAME_BOUND = 3.0
"""Seconds that a frame of another origin may take to answer before it is left out."""

DOCUMENTS = 20
"""Number of documents in a row after which the next one is not waited for, since the page keeps reloading itself."""

Hint: TypeAlias = Literal["", "enter", "button", "text", "hover", "input"]
"""Kinds of actions to which pages may react late: Enter was pressed, a button was clicked, a field's text was changed,
the mouse was moved over something, another input. Empty for actions on the browser."""


def hint_of(action: Action) -> Hint:
    """Return the kind of late reaction that an action may cause."""
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
    """Time limits of settling, in seconds."""

    load: float = 10.0
    """Seconds for a navigation to commit and load."""
    network: float = 3.0
    """Seconds for requests that the action started."""
    quiet: float = 1.0
    """Seconds for the DOM to stop changing."""
    busy: float = 3.0
    """Seconds for loading indicators to disappear (`aria-busy`, spinners, "Loading ..."); a permanent indicator is
    waited for only once."""
    reaction: float = 1.3
    """Seconds for timers of up to 600 ms that the action's events have set, and timers that these set, all together;
    also for a first reaction to Enter, if the page listens for it and nothing has happened yet. Buttons with listeners,
    popups that are announced or just opening, pictures without a box, and changes of a field with suggestions get two
    fifths of this time."""
    frames: int = 1
    """Number of frames in a row without a DOM change that count as quiet."""


class Settling:
    """The settling of a tab after an action: pending loads and requests, and the time left to wait for them.

    Args:
        tab: the tab that was acted on.
        bounds: time limits.
        since: the tab's clock before the action; earlier loads and requests aren't waited for.
        hint: kind of late reaction that the action may cause.
        acted_in: script in the frame that was acted in, if known.
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
        """Seconds, by the page's clock, for which timers are still waited for."""
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
        """Return when waiting for loads ends. Once a page is parsed, its images and frames only count as requests."""
        parsed = self.tab.parsed_at
        if self._reloads():
            return 0.0
        if parsed is None:
            return self._load_end
        return min(self._load_end, max(parsed + self.bounds.network, self._parts_end()))

    def _fetch_until(self) -> float:
        return 0.0 if self._reloads() else self._parts_end()

    def _parts_end(self) -> float:
        """Return when waiting for requests ends: at most `bounds.network` seconds after the last load or request."""
        return min(self._network_end, self.tab.begun_at + self.bounds.network)

    def _reloads(self) -> bool:
        """Whether the page keeps reloading itself."""
        return self.tab.documents - self._documents > DOCUMENTS

    async def within_load_bound(self, asking: Coroutine[Any, Any, T]) -> T:
        """Await a call to the page. A navigation that begins meanwhile delays the call by the loading limit at most."""
        task = asyncio.ensure_future(asking)
        try:
            while not (await asyncio.wait({task}, timeout=max(self._load_end - time.monotonic(), 0.2)))[0]:
                await self._stop_navigation()
            return task.result()
        finally:
            task.cancel()

    async def _stop_navigation(self) -> None:
        """Stop a navigation whose server hasn't answered, since it keeps the current page from being called."""
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
        """Return the milliseconds left for the DOM to become quiet."""
        return max(self._quiet_end - time.monotonic(), 0.05) * 1000

    def is_late(self) -> bool:
        """Whether the time limit for loading has been exceeded."""
        return time.monotonic() > self._load_end

    def is_over(self) -> bool:
        """Whether nothing is pending, or no time is left to wait."""
        now = time.monotonic()
        loading, fetching = self.tab.loading(self.since), self.tab.fetching(self.since)
        return not (loading and now < self._load_until()) and not (fetching and now < self._fetch_until())

    async def wait_for_reaction(self, raw: dict[str, Any]) -> bool:
        """Wait for a likely reaction although all is quiet; return whether to observe the page again.

        Args:
            raw: the pass, with `busy` (the page shows that it is loading), `coming` (pictures without a box are to
                come), `opening` (elements take no pointer because they are just opening), `owed` (timers of the action
                are pending), `announced` (a popup is to come), `stirred` (the page has changed since the action) and
                `due` (the actions to which the focused element may react late).
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
            except Exception:  # the frame hangs or is gone, and is not waited for
                self._frame = None
        if raw["owed"] and self._timers_left > 0 and not self.tab.fetching(self.since):  # pending requests were awaited
            began, clock = self.tab.seconds, self.tab.clock
            await page.call("timersRan", bound=self._timers_left * 1000)
            if self.tab.clock == clock or time.monotonic() > self._network_end:  # requests have a limit of their own
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
            return False  # time doesn't pass by itself in such a tab
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
        """Wait for the first change of a frame or of the page around it, to which the frame may have sent a message."""
        calls = [asyncio.ensure_future(page.call("firstSign", bound=bound * 1000, unseen=True)) for page in pages]
        try:
            done, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
            return any(call.result() for call in done)
        finally:
            for call in calls:
                call.cancel()
