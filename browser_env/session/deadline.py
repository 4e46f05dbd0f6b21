"""Deadlines of steps and resets: early if the page hangs or crashes, late if the machine is crowded.

A page counts as hung when its main thread leaves a trivial call unanswered for a while. A slow page answers between two
of its tasks, so only a single endless or very long task counts as a hang.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from selfsurf.browser_env.errors import PAGE_CRASHED, EnvError
from selfsurf.browser_env.patience import TICK, Stopwatch, lasted, limited
from selfsurf.browser_env.text import one_line

if TYPE_CHECKING:
    from selfsurf.browser_env.session.session import Session
    from selfsurf.browser_env.session.tab import Tab

FIRST_LOOK = 0.5
"""Seconds before a page is first probed; most steps are over by then."""

PAUSE = 0.5
"""Seconds between a page's answer and the next probe."""

MOST_FRAMES = 3
"""Maximum number of frames of a hung page that a message names."""

MOMENT = 0.5
"""Minimum seconds for an answer that was held up by a navigation without a response or by another tab."""


class NoAnswerInTime(EnvError):
    """The page or the browser did not answer in time."""

    fault = "timeout"


class PageHangs(NoAnswerInTime):
    """A script of the active page, or of a frame in its process, does not end."""


@contextlib.asynccontextmanager
async def deadline(
    seconds: float, hang: float, session: Callable[[], Session | None]
) -> AsyncIterator[asyncio.Timeout]:
    """Limit the duration of the `async with` body.

    Args:
        seconds: time limit on a machine that isn't crowded (`patience.share`).
        hang: seconds that the active page may leave a trivial call unanswered, counted likewise.
        session: returns the session to watch, or None while there is none.

    Yields:
        The timeout, which can be extended: a person who is asked takes time.

    Raises:
        PageHangs: the page hangs. The message names the frames that may be the cause.
        EnvError: the page has crashed, or time is up. The message says which, after how many seconds.
    """
    loop = asyncio.get_running_loop()
    faults: list[EnvError] = []
    watching: list[asyncio.Task[None]] = []

    async def watch(limit: asyncio.Timeout) -> None:
        faults.append(await _fault(session, hang))
        limit.reschedule(loop.time())

    began = time.monotonic()
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
        why = f"no answer within {lasted(seconds, time.monotonic() - began)}: the page or the browser hangs"
        raise (faults[0] if faults else NoAnswerInTime(why)) from None


class _Silence:
    """Time for which the active page has not answered, even if another tab becomes active meanwhile.

    Args:
        hang: seconds after which the page counts as hung.
    """

    def __init__(self, hang: float) -> None:
        self._hang = self._end = hang
        self._watch, self._began = Stopwatch(), time.monotonic()

    def left(self) -> float:
        """Return the seconds until the page counts as hung."""
        return self._end - self._watch.look()

    def allow_a_moment(self) -> None:
        """Give the page at least `MOMENT` more seconds to answer."""
        self._end = max(self._end, self._watch.look() + MOMENT)

    def __str__(self) -> str:
        return lasted(self._hang, time.monotonic() - self._began)


async def _fault(session: Callable[[], Session | None], hang: float) -> EnvError:
    """Wait until the active page hangs or crashes, and return the error."""

    def active() -> Tab | None:
        current = session()
        return current.active if current is not None and current.tabs else None

    silence: _Silence | None = None
    while True:
        tab = active()
        if tab is not None:
            silence = silence or _Silence(hang)
            answered = await _answers(tab, silence, active)
            if tab.crashed:
                return EnvError(PAGE_CRASHED)
            if not answered:
                if active() is tab:
                    return PageHangs(f"the page hangs: it did not answer for {silence}{_or_its_frames(tab)}")
                silence.allow_a_moment()  # another tab's page is probed next
                continue
        silence = None
        await asyncio.sleep(PAUSE)


def _or_its_frames(tab: Tab) -> str:
    """Return the part of a message that names the frames in the page's process, which may be the cause of a hang."""
    frames = [one_line(address) for address in tab.frames_within()]
    if not frames:
        return ""
    more = f" and {len(frames) - MOST_FRAMES} more" if len(frames) > MOST_FRAMES else ""
    return f"; a script of the page or of one of its frames does not end: {', '.join(frames[:MOST_FRAMES])}{more}"


async def _answers(tab: Tab, silence: _Silence, active: Callable[[], Tab | None]) -> bool:
    """Whether a page answers a trivial call before it counts as hung and while its tab is active."""
    documents = tab.documents
    asking = asyncio.ensure_future(tab.protocol.send("Runtime.evaluate", {"expression": "0"}))
    try:
        while (left := silence.left()) > 0 and not tab.crashed and active() is tab:
            done, _ = await asyncio.wait({asking}, timeout=min(TICK, left))
            if done or tab.documents != documents:
                return True  # an error is an answer, too: the page is navigating or closed
            if tab.holds_calls():
                silence.allow_a_moment()
        return False
    finally:
        asking.add_done_callback(lambda done: None if done.cancelled() else done.exception())
        asking.cancel()
