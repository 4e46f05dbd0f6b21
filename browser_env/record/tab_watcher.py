"""Detection of a person's actions in the browser itself: address bar, back and forward, tabs.

Navigations that the page requested, and tabs that it opened, are consequences of other actions and not recorded.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from selfsurf.browser_env.actions import Action, Back, Forward, Navigate
from selfsurf.browser_env.session.tab import Tab

RECENT = 0.5
"""Seconds after input in a page during which a history navigation, or closing the tab, is attributed to the page."""

OPENING = 3.0
"""Maximum seconds between a page's request for a tab and the appearance of the tab."""

COMMIT = 2.0
"""Maximum seconds to wait for a new document to respond before its tab's history is read."""

_BY_HAND = frozenset({"typed", "generated", "keyword", "keyword_generated", "auto_bookmark", "auto_toplevel"})
"""Chromium's transition types for navigations that start outside a page."""


@dataclass(frozen=True)
class History:
    """A tab's navigation history: the IDs of its entries, and index and data of the current entry."""

    ids: list[int]
    index: int
    entry: dict[str, Any]


class TabWatcher:
    """A watcher that reports `nav`, `tab`, `closed` and `event` facts, and infers the action behind a navigation.

    Args:
        report: called with a tab and a fact.
    """

    def __init__(self, report: Callable[[Tab, dict[str, Any]], None]) -> None:
        self._report = report
        self._history: dict[Tab, History] = {}
        self._acted: dict[Tab, float] = {}
        self._asked: set[Tab] = set()
        self._window_asked = 0.0
        self._reading: set[asyncio.Task[History | None]] = set()

    async def watch(self, tab: Tab) -> None:
        """Start watching a tab."""
        main = tab.main.frame_id

        def requested(event: dict[str, Any]) -> None:
            if event["disposition"] != "currentTab":
                self._window_asked = time.monotonic()
            elif event["frameId"] == main:
                self._asked.add(tab)

        def navigated(event: dict[str, Any]) -> None:
            if event["frame"]["id"] == main:
                self._navigated(tab, within=False)

        def within(event: dict[str, Any]) -> None:
            if event["frameId"] == main:
                self._navigated(tab, within=True)

        def opening(event: dict[str, Any]) -> None:
            self._window_asked = time.monotonic()

        tab.protocol.on("Page.frameRequestedNavigation", requested)
        tab.protocol.on("Page.frameNavigated", navigated)
        tab.protocol.on("Page.navigatedWithinDocument", within)
        tab.protocol.on("Page.windowOpen", opening)
        tab.protocol.on("Page.downloadWillBegin", lambda _: self._asked.discard(tab))
        asked: list[dict[str, Any]] = []
        tab.protocol.on("Page.javascriptDialogOpening", lambda event: asked.append(event))
        tab.protocol.on("Page.javascriptDialogClosed", lambda event: self._answered(tab, asked, event))
        tab.page.on("close", lambda _: self._report(tab, {"kind": "closed", "own": self._recent(tab)}))
        opened = time.monotonic() - self._window_asked < OPENING or await tab.page.opener() is not None
        self._window_asked = 0.0
        await self.remember(tab)
        self._report(tab, {"kind": "tab", "own": opened})

    def _navigated(self, tab: Tab, within: bool) -> None:
        self._reading.add(reading := asyncio.ensure_future(self._read(tab)))
        reading.add_done_callback(self._reading.discard)
        asked, recent = tab in self._asked, self._recent(tab)
        self._asked.discard(tab)
        self._report(tab, {"kind": "nav", "asked": asked, "recent": recent, "within": within, "history": reading})

    def _answered(self, tab: Tab, asked: list[dict[str, Any]], event: dict[str, Any]) -> None:
        """Report a dialog that the person at the window has closed."""
        if not asked or not asked[-1]["hasBrowserHandler"]:
            return  # without a window, the environment itself answers and reports dialogs
        dialog = asked.pop()
        changed = dialog["type"] == "prompt" and event["userInput"] != dialog["defaultPrompt"]
        done = "dismissed" if not event["result"] else f'answered "{event["userInput"]}"' if changed else "accepted"
        text = " ".join(dialog["message"].split())[:200]
        self._report(tab, {"kind": "event", "event": f"{dialog['type']} dialog {done}: {text}".rstrip(": ")})

    def acted(self, tab: Tab) -> None:
        """Record that there was input in a tab's page just now."""
        self._acted[tab] = time.monotonic()

    def _recent(self, tab: Tab) -> bool:
        return time.monotonic() - self._acted.get(tab, 0.0) < RECENT

    async def remember(self, tab: Tab) -> None:
        """Store a tab's current history."""
        self._history[tab] = await _history(tab)

    async def _read(self, tab: Tab) -> History | None:
        """Return a tab's history after the arrival of a new document; None if the tab has been closed."""
        # A page reports its new document before the browser has added it to the history.
        await tab.caught_up(COMMIT)
        with contextlib.suppress(Exception):
            return await asyncio.wait_for(_history(tab), 5)
        return None

    async def action_of(self, tab: Tab, fact: dict[str, Any]) -> list[Action]:
        """Return the person's actions behind a tab's navigation; empty if something else caused it."""
        old, new = self._history.get(tab), await fact["history"]
        if new is None:
            return []
        self._history[tab] = new
        url = new.entry["url"]
        if old is None or not url.startswith(("http://", "https://", "file://", "data:")):
            return []
        if new.ids == old.ids:
            back = old.index - new.index
            if back:  # no event reveals whether a script caused it
                return [] if fact["recent"] else [Back() if back > 0 else Forward()] * abs(back)
            return [] if fact["asked"] or fact["within"] else [Navigate(url=url)]  # reloaded
        if new.entry["id"] in old.ids or new.entry["transitionType"] not in _BY_HAND:
            return []
        typed = new.entry["userTypedURL"]
        return [Navigate(url=typed if typed.startswith(("http://", "https://")) else url)]


async def _history(tab: Tab) -> History:
    told = await tab.protocol.send("Page.getNavigationHistory")
    entries, index = told["entries"], told["currentIndex"]
    return History([entry["id"] for entry in entries], index, entries[index])
