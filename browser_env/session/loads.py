"""What a page is loading, and how long that holds up its time (`PageTime`)."""

from __future__ import annotations

import asyncio
import time
from typing import Any, NamedTuple

NETWORK = 3.0
"""Seconds that requests hold up the page's time, of all that follow an action or a navigation together."""

HOLD_SHORT = 0.3
"""The same for pictures, fonts and the like."""

OPENING = "opening"
"""The type of what a tab was opened for: its requests may have begun before anything was told of them."""

HOLDS = {
    **dict.fromkeys(("Document", "Script", "Stylesheet", "XHR", "Fetch"), NETWORK),
    **dict.fromkeys(("EventSource", "WebSocket", "Media", "Ping", "Prefetch", OPENING), 0.0),
}
"""The same by the type of request."""

LOADING = 30.0
"""Seconds for which something may be loading and be given frames."""


class Load(NamedTuple):
    """A request, or a document."""

    began: float
    """When (`time.monotonic`)."""
    hold: float
    """Seconds for which it holds up the page's time."""
    frame: str
    """The id of the frame that asked for it, if it's a request."""
    kind: str
    """Its type, as of requests."""


class Loads:
    """All that a page is loading.

    Args:
        changed: set whenever something begins or ends.
    """

    def __init__(self, changed: asyncio.Event) -> None:
        self._changed = changed
        self._all: dict[str, Load] = {}
        self.begun = 0
        """How many there have been that hold time up."""
        self._patient_until = 0.0
        """When (`time.monotonic`) the patience with old requests ends."""
        self._document = ""
        """The id of the page's main frame."""
        self._blank: float | None = None
        """Since when (`time.monotonic`) its document is there and draws nothing yet."""
        self._parsed = False
        """Has all of that come, but for what it loads?"""

    def __bool__(self) -> bool:
        return bool(self._all)

    def begin(self, id: str, kind: str, frame: str = "") -> None:
        """Take note that something is being loaded.

        Args:
            id: names it.
            kind: its type, as of requests.
            frame: the id of the frame that asked for it.
        """
        hold = HOLDS.get(kind, HOLD_SHORT)
        self._all[id] = Load(time.monotonic(), hold, frame, kind)
        self.begun += hold > 0
        self._changed.set()

    def sent(self, event: dict[str, Any]) -> None:
        """Take note of a request (`Network.requestWillBeSent`)."""
        if event["loaderId"] != "":  # else it is a worker's script, whose end is told to the worker alone
            self.begin(event["requestId"], event.get("type", ""), event.get("frameId", ""))

    def end(self, id: str) -> None:
        """Take note that it has come, or never will."""
        if self._all.pop(id, None) is not None:
            self._changed.set()

    def lose(self, frame: str) -> None:
        """Forget a frame, which is gone or goes on in another process: nothing more is told of it here."""
        for id in (frame, f"to {frame}", *(id for id, one in self._all.items() if one.frame == frame)):
            self.end(id)

    def navigated(self, frame: dict[str, Any]) -> None:
        """Take note that there is another document (`Page.frameNavigated`). Of the old one nothing more is told."""
        if "parentId" not in frame:
            self._all.clear()
            self._document, self._blank, self._parsed = frame["id"], time.monotonic(), False
        self.begin(frame["id"], "Document")

    def parsed(self, _: dict[str, Any]) -> None:
        """Take note that the main frame's document has come, but for what it loads."""
        self._parsed = True
        self._changed.set()

    def drawn(self) -> None:
        """Take note that a frame was drawn."""
        if self._parsed:
            self._blank = None

    @property
    def is_blank(self) -> bool:
        """Is there a new document, for up to `NETWORK` seconds, that draws nothing yet?"""
        if self._blank is None or time.monotonic() - self._blank > NETWORK:
            return False
        return not self._parsed or any(one.kind == "Stylesheet" for one in self._all.values())

    @property
    def is_leaving(self) -> bool:
        """Is the page going to another document, for up to `NETWORK` seconds?"""
        since = time.monotonic() - NETWORK
        return any(
            one.kind == "Document"
            and one.began > since
            and self._document in (id.removeprefix("to "), one.frame)
            and id != self._document
            for id, one in self._all.items()
        )

    def hold_at(self, moment: float) -> bool:
        """Does something still hold up the page's time at that moment (`time.monotonic`)?"""
        old = moment < self._patient_until
        return any(moment < one.began + one.hold or (old and one.hold == NETWORK) for one in self._all.values())

    def wait_again(self, seconds: float) -> None:
        """Let requests that have held up the page's time before do so once more, for so long at most."""
        self._patient_until = time.monotonic() + min(seconds, NETWORK)

    def since_last(self) -> float | None:
        """Return the seconds since the last one began of those that may still come, or None if there is none."""
        now = time.monotonic()
        self._all = {id: one for id, one in self._all.items() if now - one.began < LOADING}
        return now - max(one.began for one in self._all.values()) if self._all else None
