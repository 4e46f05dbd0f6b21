"""A browser context with its tabs: one session per environment, with its own cookies and storage."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from selfsurf.browser_env.errors import ActionError, EnvError
from selfsurf.browser_env.limits import Limits
from selfsurf.browser_env.safety.policy import Safety
from selfsurf.browser_env.session.access import AccessGuard, served
from selfsurf.browser_env.session.calls import Calls
from selfsurf.browser_env.session.contexts import ContextSource
from selfsurf.browser_env.session.determinism import CONTEXT, Clock, DeterministicTab
from selfsurf.browser_env.session.dialogs import DialogPolicy, accepts, answer_dialog
from selfsurf.browser_env.session.files import Downloads
from selfsurf.browser_env.session.tab import Tab
from selfsurf.browser_env.session.written import event_of, objection_to
from selfsurf.browser_env.task import Task, Viewport
from selfsurf.browser_env.text import one_line

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Dialog, Download, Frame, Page, Request, Response

    from selfsurf.browser_env.browser.page_script import PageScript

FRESH = 3.0
"""Seconds for which a tab's document counts as new, so that steps in the tab wait for its loads."""

POPUP_BOUND = 3.0
"""Seconds that a tab opened by a page may take to appear and to have its document."""

CLOSE_BOUND = 2.0
"""Seconds that a tab may take to close by itself; a hung tab is closed by force."""

_ERROR_PAGE = "chrome-error://"
"""Beginning of the address that the browser shows for a page that it could not load."""

_NO_PAGE = ("", "about:blank")
"""Addresses of tabs without a page."""

MAX_TABS = 20
"""Maximum number of tabs of a session; pages' additional tabs are closed at once."""

MAX_EVENTS = 50
"""Maximum number of events kept per step; a final event reports that more were left out."""


class Session:
    """The tabs of one context, the active tab, and the events since they were last taken."""

    def __init__(self, context: BrowserContext, source: ContextSource, viewport: Viewport, access: AccessGuard) -> None:
        self.context = context
        self.source = source
        self.viewport = viewport
        self.scripted = True
        """Whether pages' scripts run."""
        self.tabs: list[Tab] = []
        self.active: Tab
        self.next_id = 1
        """First element id that no document of this episode has used."""
        self.closed = False
        self.access = access
        """Rules for what the session may reach, and what was blocked."""
        self.downloads = Downloads(self.access.safety, self.note)
        self.stayed = False
        """Whether a page's `beforeunload` dialog was dismissed. Reset before each navigation."""
        self._decided = asyncio.Event()
        """Event that is set when a tab has closed, or when its page stays after all."""
        self.clock: Clock | None = None
        self.on_tab: Callable[[Tab], Awaitable[None]] | None = None
        self.dialogs: DialogPolicy = "accept"
        self.holds_dialog: Callable[[str], bool] = lambda message: False
        """Function that returns whether a dialog with this text is dismissed although `dialogs` accepts it."""
        self.limits = Limits()
        """Maximum lengths of events."""
        self.missed = ""
        """Reason why this step's press reached another element than intended, as a sentence; empty for none."""
        self.misfilled = ""
        """Reason why this step's text is not in its field, as a sentence; empty for none."""
        self.choosing = False
        """Whether a file chooser is about to be answered."""
        self.unreached = ""
        """Reason why a tab's new page could not be loaded, as a sentence; empty for none."""
        self.stopped = False
        """Whether the misdirected press was stopped before the page received it."""
        self.acted_in: PageScript | None = None
        """Script in the frame that this step has acted in; None if it acted on no element of a page."""
        self._presses = 0
        self._began = -1
        self._clocks: dict[Tab, int] = {}
        """Clocks of the tabs when the step began, without tabs whose document was new."""
        self._events: list[str] = []
        self.calls = Calls()
        """Requests since they were last taken."""
        self._attaching: set[asyncio.Task[None]] = set()
        self._coming = 0
        """Number of pages that are about to become tabs."""
        self._appeared = asyncio.Event()
        self._refused: dict[str, int] = {}
        """HTTP status of documents that were answered with an error, by URL."""
        self._downloading = False
        """Whether a download has begun in this step."""
        self._expected = 0
        """Number of windows that pages have requested and that haven't opened yet."""

    @classmethod
    async def open(
        cls,
        task: Task,
        source: ContextSource,
        viewport: Viewport,
        options: Mapping[str, Any],
        *,
        dialogs: DialogPolicy,
        safety: Safety,
        limits: Limits,
        clock: Clock | None,
        on_tab: Callable[[Tab], Awaitable[None]] | None,
        adopts: bool = False,
    ) -> Session:
        """Open a context with one blank tab.

        Args:
            task: its start page may always be reached, and its `sites` are served from folders.
            source: where the context comes from.
            viewport: size of the page in CSS pixels.
            options: additional arguments for Playwright's `Browser.new_context`.
            dialogs: how dialogs are answered (`browser_env.session.dialogs`).
            safety: what may be reached, and where downloads go.
            limits: how long an event may be.
            clock: the episode's own clock, if pages must not depend on the real one.
            on_tab: awaited with every opened tab before the tab is used.
            adopts: take over the tabs of a browser that another process has left, if there are any.

        Raises:
            ValueError: `safety` restricts hosts, which can't be enforced in a browser's default context.
        """
        await source.wait_closed()
        access = AccessGuard(safety, task.start_url, task.sites, guarded=not source.shared_with_people)
        source.spec = access.browser_spec(source.spec)
        size = {"width": viewport[0], "height": viewport[1]}
        fixed = CONTEXT if clock is not None else {}
        arguments = {"viewport": size, "accept_downloads": True, **fixed, **options}
        arguments = await access.proxied(arguments, source.gate_port)
        try:
            context = await source.open(arguments)
        except BaseException:
            await access.close()
            raise
        session = cls(context, source, viewport, access)
        session.dialogs, session.limits, session.clock, session.on_tab = dialogs, limits, clock, on_tab
        session.scripted = options.get("java_script_enabled", True)
        if not source.shared_with_people:
            context.on("dialog", session._dialog)  # a popup may open a dialog before its page is reported
        try:
            await source.prepare(context, session.note)
            if clock is not None:
                await clock.install(context)
            for origin, answer in served(task.sites, access).items():
                await context.route(f"{origin}/**", answer)
            await access.report_to(context, session.note)
            before = [] if source.shared_with_people else context.pages
            if source.embedded:
                session.active = await session._attach(context.pages[0])
            elif adopts and source.attached:
                for page in before:
                    session.active = await session._attach(page)
                before = []
            if not session.tabs:
                session.active = await session._attach(await source.first_page(context))
            for page in before:  # the blank tab that a browser starts with
                await page.close()
        except BaseException:
            await session.close()
            raise
        context.on("page", session._new_page)
        return session

    async def _attach(self, page: Page) -> Tab:
        if self.source.shared_with_people:
            page.on("dialog", self._dialog)
        page.on("download", self._download)
        if self.source.spec.headless and not self.source.shared_with_people:  # otherwise the person sees it
            page.on("filechooser", lambda _: self._chooser())
        page.on("pageerror", lambda error: self.note(f"page error: {one_line(str(error))}"))
        page.on("response", self._answered)
        page.on("requestfailed", self.calls.failed)
        page.on("requestfailed", self._unreached)
        page.on("framenavigated", self._navigated)
        page.on("close", lambda _: self._tab_closed(page))
        probe = self.source.probe
        tab = await (Tab.open(page, probe) if self.clock is None else DeterministicTab.attach(page, self.clock, probe))
        tab.scripted = self.scripted
        await self.source.attach(tab, self.viewport)
        tab.protocol.on("Page.windowOpen", lambda _: self._expect())
        tab.protocol.on("Page.frameRequestedNavigation", self._elsewhere)
        self.downloads.watch(tab)
        if self.on_tab is not None:
            await self.on_tab(tab)
        self.tabs.append(tab)
        return tab

    def _elsewhere(self, event: dict[str, Any]) -> None:
        """Expect a new tab if a link opens in one, after a middle click or a click with a modifier key."""
        if event.get("disposition") in ("newTab", "newWindow"):
            self._expected = max(self._expected, 1)  # windowOpen may report the same tab

    def _expect(self) -> None:
        self._expected += 1

    def _new_page(self, page: Page) -> None:
        if len(self.tabs) + self._coming >= MAX_TABS:
            task = asyncio.ensure_future(self._refuse(page))
        else:
            self._coming += 1
            task = asyncio.ensure_future(self._adopt(page))
        self._attaching.add(task)
        self._appeared.set()
        task.add_done_callback(self._attaching.discard)

    async def _adopt(self, page: Page) -> None:
        before = self.active
        try:
            try:
                if self.source.shared_with_people and not await self._is_ours(page):
                    return
                tab = await self._attach(page)
            finally:
                self._coming -= 1
            opener = await page.opener()
            tab.opener = next((one for one in self.tabs if one.page is opener), None)
            self.active = tab
            if not self._only_downloads(page):
                # from here on, a slow page is settled like any other
                with contextlib.suppress(Exception), tab.opening():
                    await page.wait_for_load_state("domcontentloaded", timeout=POPUP_BOUND * 1000)
                    await self._sent_on(page, before)
            if self._only_downloads(page) and before in self.tabs:
                self.tabs.remove(tab)
                self.active = before
                await page.close()
            else:
                self.note(f"new tab: {page.url}")
        except Exception:
            return  # the popup was closed before it could be used
        finally:
            self._expected = max(0, self._expected - 1)

    async def _sent_on(self, page: Page, opener: Tab) -> None:
        """Wait for the address of a blank tab while its opener still requests it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(POPUP_BOUND):
                while page.url in _NO_PAGE and opener.fetching(self._began):
                    opener.changed.clear()
                    await opener.changed.wait()

    def _only_downloads(self, page: Page) -> bool:
        """Whether a tab has no document, not even a blank one, because its address became a download."""
        return self._downloading and not page.url

    async def _refuse(self, page: Page) -> None:
        if self.source.shared_with_people and not await self._is_ours(page):
            return
        self.note(f"new tab closed again: there are {MAX_TABS} already")
        self._expected = max(0, self._expected - 1)
        with contextlib.suppress(Exception):  # the page may be gone already
            await page.close()

    async def _is_ours(self, page: Page) -> bool:
        """Whether this session or one of its tabs opened the page, and not the browser's user."""
        return self._expected > 0 or await page.opener() in [tab.page for tab in self.tabs]

    def _tab_closed(self, page: Page) -> None:
        closed = next((tab for tab in self.tabs if tab.page is page), None)
        if closed is None or self.closed:
            return
        self._remove(closed)
        closed.changed.set()
        self._decided.set()
        self.note("tab closed")

    def _remove(self, tab: Tab) -> None:
        """Forget a closed tab. If it was active, the tab that opened it becomes active, or else the last tab."""
        if tab in self.tabs:
            self.tabs.remove(tab)
        if tab is self.active and self.tabs:
            self.active = tab.opener if tab.opener in self.tabs else self.tabs[-1]

    async def _dialog(self, dialog: Dialog) -> None:
        if self.dialogs == "leave":
            return
        done = "could not be answered"
        with contextlib.suppress(Exception):  # the page may be gone by now
            held = accepts(dialog.type, self.dialogs) and self.holds_dialog(dialog.message)
            done = await answer_dialog(dialog, "dismiss" if held else self.dialogs)
        if dialog.type == "beforeunload" and done == "dismissed":
            self.stayed = True
            self._decided.set()
            for tab in self.tabs:
                if tab.page is dialog.page:
                    tab.stay()
        self.note(f"{dialog.type} dialog {done}: {one_line(dialog.message)}".rstrip(": "))

    def _download(self, download: Download) -> None:
        self._downloading = True
        self.note(f"download: {download.suggested_filename}")
        self.downloads.start(download)

    def _answered(self, response: Response) -> None:
        self.calls.answered(response)
        if response.status >= 400 and response.request.is_navigation_request():
            self._refused[response.url] = response.status

    def _navigated(self, frame: Frame) -> None:
        if frame.parent_frame is None and frame.url.startswith(_ERROR_PAGE):
            self._refused.clear()
            return  # the failed request is reported separately
        if frame.parent_frame is None and frame.url not in _NO_PAGE:
            status = self._refused.pop(frame.url.split("#")[0], None)
            self.note(f"navigated: {frame.url}" + (f" ({status})" if status else ""))
            self._refused.clear()

    def _chooser(self) -> None:
        if not self.choosing:
            self.note("file chooser: nothing was chosen; upload to what opened it chooses files")

    def _unreached(self, request: Request) -> None:
        why = request.failure or ""
        frame = request.frame if request.is_navigation_request() else None
        if frame is not None and frame.parent_frame is None and "ERR_ABORTED" not in why:
            self.unreached = f"{one_line(request.url)} could not be loaded: {why.removeprefix('net::')}."

    def note(self, event: str) -> None:
        """Record an event of this step."""
        if len(self._events) < MAX_EVENTS:
            self._events.append(self.limits.note(event))
        elif len(self._events) == MAX_EVENTS:
            self._events.append("more events, left out")

    def start_step(self) -> None:
        """Begin a step and forget the problems of the last step."""
        self.access.start_step()
        self.missed, self.stopped, self.misfilled, self.unreached, self.acted_in = "", False, "", "", None
        self._presses += 1
        self._downloading, self._began = False, self.active.clock
        self._clocks = {tab: tab.clock for tab in self.tabs if tab.has_shown_for(FRESH)}

    @property
    def since(self) -> int:
        """Clock of the active tab when the step began; -1 if its document was new or missing then."""
        return self._clocks.get(self.active, -1)

    def aim(self) -> int:
        """Return the number of the press or text input that is about to follow."""
        self._presses += 1
        return self._presses

    @property
    def aimed(self) -> int:
        """Number of the last press or text input."""
        return self._presses

    def note_missed(self, miss: dict[str, Any] | None) -> None:
        """Record the in-page script's report on the last press (`page/press.js`), if it belongs to this step."""
        if miss is None or miss["press"] != self._presses:
            return
        if miss.get("slipped"):
            self.missed = "The element moved away while the mouse was pressed on it, so it was not clicked."
            return
        if miss.get("released"):
            self.note(f"when the mouse was released, {miss['released']} had come over the element: no click")
            return
        self.stopped = miss["stopped"]
        there = f"The click did not reach its element: when the mouse was pressed, {miss['what']} was in its place"
        self.missed = f"{there}. It was stopped." if miss["stopped"] else f"{there} and received it."

    def note_read_back(self, told: dict[str, Any] | None) -> None:
        """Record the in-page script's report on the field last written to, if it belongs to this step."""
        if told is None or told["number"] != self._presses:
            return
        id = told["id"]
        self.misfilled = objection_to(id, told)
        if event := event_of(id, told):
            self.note(event)

    def note_refused(self, fields: list[str]) -> None:
        """Record the fields that kept the browser from sending a form."""
        for field in fields:
            self.note(f"form not sent: {field}")

    @property
    def trouble(self) -> str:
        """Problem of this step other than the action's own error, as a sentence; empty for none."""
        return self.access.navigation or self.missed or self.misfilled

    def take_events(self) -> tuple[str, ...]:
        """Return the events since the last call and clear them."""
        self.access.report_unclaimed()
        events, self._events = tuple(self._events), []
        return events

    @property
    def opening(self) -> bool:
        """Whether a requested tab hasn't opened yet."""
        return bool(self._attaching or self._expected)

    async def attached(self) -> None:
        """Wait for a limited time for tabs that are being opened: a popup may have been blocked."""
        end = asyncio.get_running_loop().time() + POPUP_BOUND
        while self.opening and (left := end - asyncio.get_running_loop().time()) > 0:
            if self._attaching:
                await asyncio.wait(set(self._attaching), timeout=left)
            else:
                self._appeared.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._appeared.wait(), left)
        self._expected = 0
        if not self.tabs:  # the last page has closed itself
            await self.new_tab()

    async def new_tab(self) -> None:
        """Open a blank tab and make it active.

        Raises:
            ActionError: the tab limit has been reached, or the browser belongs to an application.
        """
        self._check_own()
        if len(self.tabs) >= MAX_TABS:
            raise ActionError(f"There are {MAX_TABS} tabs, and no more can be opened; close one first.")
        self._expect()
        page = await self.context.new_page()  # the handler of the "page" event attaches to it
        await asyncio.sleep(0)
        await self.attached()
        opened = [tab for tab in self.tabs if tab.page is page]
        if not opened:
            raise EnvError("A tab was opened, but the environment could not attach to it.")
        (self.active,) = opened

    async def close_tab(self) -> None:
        """Close the active tab, unless its page asks to stay; a blank tab replaces the last one."""
        self._check_own()
        tab = self.active
        self.stayed = False
        self._decided.clear()
        await tab.page.close(run_before_unload=True)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._decided.wait(), CLOSE_BOUND)
        if self.stayed:
            return
        if not tab.page.is_closed():
            await tab.page.close()  # the page hangs
        self._remove(tab)
        if not self.tabs:
            await self.new_tab()

    def _check_own(self) -> None:
        if self.source.embedded:
            raise ActionError("This page belongs to an application: tabs can't be opened or closed in it.")

    async def has_closed(self, tab: Tab) -> bool:
        """Whether a tab has closed or is closing, so that another tab is active. A blank tab replaces the last one."""
        if not tab.page.is_closed():
            self._decided.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._decided.wait(), 0.2)
        if not tab.page.is_closed() or self.closed or tab.crashed:
            return False
        if not self.tabs:
            await self.new_tab()
        return self.active is not tab

    async def focus_tab(self, index: int) -> None:
        """Make the tab with this index active."""
        self.active = self.tabs[index]
        await self.active.page.bring_to_front()

    async def close(self, *, broken: bool = False) -> None:
        """Close the context. If it doesn't close in time, its browser is closed.

        Args:
            broken: the session is known to hang and gets less time.
        """
        if self.closed:
            return
        self.closed = True
        self.source.closing = asyncio.ensure_future(self._close(2 if broken else 10))
        await asyncio.shield(self.source.closing)  # closing continues even if the caller is cancelled

    async def _close(self, seconds: float) -> None:
        self.downloads.forget()
        await self.access.close()
        closing = asyncio.ensure_future(self.source.close(self.context, [tab.page for tab in self.tabs]))
        closing.add_done_callback(lambda done: None if done.cancelled() else done.exception())  # may go unawaited
        await asyncio.wait({closing}, timeout=seconds)
        if not closing.done() or closing.exception() is not None:
            await self.source.kill(self.context, closing)
