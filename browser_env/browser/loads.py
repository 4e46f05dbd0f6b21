"""Pending loads of a page, and how long they hold up the page's time (`PageTime`)."""

from __future__ import annotations

import asyncio
import time
from typing import Any, NamedTuple

NETWORK = 3.0
"""Maximum seconds that all requests after an action or a navigation hold up the page's time together."""

HOLD_SHORT = 0.3
"""Seconds that a picture, a font or a similar request holds up the page's time."""

OPENING = "opening"
"""Type of a new tab's first load, whose requests may have begun before they could be observed."""

HOLDS = {
    **dict.fromkeys(("Document", "Script", "Stylesheet", "XHR", "Fetch"), NETWORK),
    **dict.fromkeys(("EventSource", "WebSocket", "Media", "Ping", "Prefetch", OPENING), 0.0),
}
"""Seconds that a request holds up the page's time, by its type."""

LOADING = 30.0
"""Seconds after which a load no longer counts as pending."""


class Load(NamedTuple):
    """A pending load: a request or a document."""

    began: float
    """When the load began (`time.monotonic`)."""
    hold: float
    """Seconds for which the load holds up the page's time."""
    frame: str
    """Id of the frame that sent the request; empty for other loads."""
    kind: str
    """Type of the load: a request type or `OPENING`."""


class Loads:
    """The pending loads of one page.

    Args:
        changed: event that is set whenever a load begins or ends.
    """

    def __init__(self, changed: asyncio.Event) -> None:
        self._changed = changed
        self._all: dict[str, Load] = {}
        self.begun = 0
        """Number of loads so far that hold up the page's time."""
        self._patient_until = 0.0
        """Time (`time.monotonic`) until which old requests hold up the page's time again."""
        self._document = ""
        """Id of the page's main frame."""
        self._blank: float | None = None
        """When (`time.monotonic`) the current document began, while it has drawn nothing; None afterwards."""
        self._parsed = False
        """Whether the document has arrived, apart from the resources that it loads."""

    def __bool__(self) -> bool:
        return bool(self._all)

    def begin(self, id: str, kind: str, frame: str = "") -> None:
        """Record a new load.

        Args:
            id: id of the load.
            kind: type of the load, as of requests.
            frame: id of the frame that sent the request.
        """
        hold = HOLDS.get(kind, HOLD_SHORT)
        self._all[id] = Load(time.monotonic(), hold, frame, kind)
        self.begun += hold > 0
        self._changed.set()

    def sent(self, event: dict[str, Any]) -> None:
        """Record a request (`Network.requestWillBeSent`)."""
        if event["loaderId"] != "":  # the end of a worker's script is reported to the worker only
            self.begin(event["requestId"], event.get("type", ""), event.get("frameId", ""))

    def end(self, id: str) -> None:
        """Record that a load has arrived, or never will."""
        if self._all.pop(id, None) is not None:
            self._changed.set()

    def lose(self, frame: str) -> None:
        """Drop the loads of a frame that is gone or continues in another process, where their ends are reported."""
        for id in (frame, f"to {frame}", *(id for id, one in self._all.items() if one.frame == frame)):
            self.end(id)

    def navigated(self, frame: dict[str, Any]) -> None:
        """Record a new document (`Page.frameNavigated`). Loads of the old document are no longer reported."""
        if "parentId" not in frame:
            self._all.clear()
            self._document, self._blank, self._parsed = frame["id"], time.monotonic(), False
        self.begin(frame["id"], "Document")

    def parsed(self, _: dict[str, Any]) -> None:
        """Record that the main frame's document has arrived, apart from the resources that it loads."""
        self._parsed = True
        self._changed.set()

    def drawn(self) -> None:
        """Record that a frame was drawn."""
        if self._parsed:
            self._blank = None

    @property
    def is_blank(self) -> bool:
        """Whether a new document has drawn nothing yet, for up to `NETWORK` seconds."""
        if self._blank is None or time.monotonic() - self._blank > NETWORK:
            return False
        return not self._parsed or any(one.kind == "Stylesheet" for one in self._all.values())

    @property
    def is_leaving(self) -> bool:
        """Whether the page is navigating to another document, for up to `NETWORK` seconds."""
        since = time.monotonic() - NETWORK
        return any(
            one.kind == "Document"
            and one.began > since
            and self._document in (id.removeprefix("to "), one.frame)
            and id != self._document
            for id, one in self._all.items()
        )

    def hold_at(self, moment: float) -> bool:
        """Whether a load still holds up the page's time at that moment (`time.monotonic`)."""
        old = moment < self._patient_until
        return any(moment < one.began + one.hold or (old and one.hold == NETWORK) for one in self._all.values())

    def wait_again(self, seconds: float) -> None:
        """Let requests that have already held up the page's time do so once more, for at most `seconds`."""
        self._patient_until = time.monotonic() + min(seconds, NETWORK)

    def since_last(self) -> float | None:
        """Return the seconds since the latest pending load began; None if no load is pending."""
        now = time.monotonic()
        self._all = {id: one for id, one in self._all.items() if now - one.began < LOADING}
        return now - max(one.began for one in self._all.values()) if self._all else None
