"""Mouse drags, and the native drags with data into which the browser may turn them.

Native drags follow the system's mouse, which doesn't exist here. On request, Chromium reports the dragged data instead,
and takes the drag's positions from us
(https://chromedevtools.github.io/devtools-protocol/tot/Input/#event-dragIntercepted).
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from selfsurf.browser_env.act.mouse import PRESSURE
from selfsurf.browser_env.act.targets import Point, Targets
from selfsurf.browser_env.actions import Drag
from selfsurf.browser_env.browser.page_script import PageScript, document_was_replaced
from selfsurf.browser_env.errors import ActionError, ScriptError
from selfsurf.browser_env.session.tab import Tab

HOLD = 300.0
"""Milliseconds to hold still when a drag without effect is retried; lists that scroll by touch require 250."""

DRAG_STEPS = 5
"""Number of mouse moves in a drag; pages measure the distance and the elements passed on the way."""

DWELL = 150.0
"""Milliseconds that the mouse stays at the target if the page uses timers: SortableJS checks every 50, Muuri 100."""

HANDED_OVER = 1.0
"""Seconds to wait for the dragged data once the page has let a drag begin; usually a millisecond is enough."""


async def drag(targets: Targets, action: Drag) -> str:
    """Press at one place, move to the other in steps, through the points of `via` if any, and release.

    A drag of an element that changes nothing on the page is retried once, holding still after the press, which some
    lists require before they move an item.

    Raises:
        ActionError: an end can't be reached, or the drag changed nothing.
    """
    target = await targets.resolve_point(action.to)
    source = await targets.resolve_point(action.from_)
    before = await _state(targets)
    await _drag_once(targets, action, source, target, action.hold)
    if action.hold or action.via or isinstance(source, tuple) or not await _unchanged(targets, source, before):
        return "mouse"
    await targets.world(source).call("unmark")
    await _drag_once(targets, action, source, target, HOLD)
    if await _unchanged(targets, source, before):
        if not (await targets.ask("draws", source))["marked"]:
            raise ActionError("The drag changed nothing on the page.", "blocked")
        targets.session.note("the drag marked text and changed nothing else")
    return "mouse"


async def _state(targets: Targets) -> tuple[str, str | None, int]:
    """Return the page's edition, its markup if it has no frames or shadow roots, and its number of requests."""
    tab = targets.tab
    edition, markup = await asyncio.gather(tab.call("edition"), tab.call("pageText"))
    return edition, markup, tab.clock


async def _unchanged(targets: Targets, source: int, before: tuple[str, str | None, int]) -> bool:
    """Whether a drag has had no visible effect; False where effects can't be seen, as in a canvas or a foreign frame.

    A request is an effect, whatever the page does with the response.
    """
    if source in targets.foreign or (await targets.ask("draws", source))["draws"]:
        return False
    await targets.tab.call("settle", frames=2, bound=200)
    edition, markup, clock = await _state(targets)
    return clock == before[2] and (edition == before[0] or (markup is not None and markup == before[1]))


async def _drag_once(targets: Targets, action: Drag, source: int | Point, target: int | Point, hold: float) -> None:
    """Drag once from a source to a target.

    The target is located after the drag has begun, which may move elements, and is scrolled into view with the mouse
    held down. Both ends are located once before that, since a press without a destination would be a click.
    """
    await targets.point(target)
    start = await targets.point(source, press=True)
    way = [targets.on_page(*point) for point in action.via]
    id = None if isinstance(source, tuple) else source
    page = targets.tab.main if id is None else targets.world(id)
    held = _HeldMouse(targets.tab)

    async def heed(*, last: bool = False) -> dict[str, bool]:
        return await _heed(page, id=id, x=start[0], y=start[1], last=last)

    await heed()
    await held.press(start)
    try:
        if hold:
            await targets.tab.pass_by(hold)
        # Move a few pixels first: browsers and libraries begin a drag at the press once the mouse has moved a little.
        reacts_later = False
        for x, y in way or [(start[0] + 3, start[1] + 3), (start[0] + 6, start[1] + 6)]:
            await held.move(x, y)
            told = await heed()
            reacts_later |= told["timed"]
            if told["begun"] and id not in targets.foreign:  # drags in other sites' frames are never reported
                await held.take_over()
        end = await targets.point(target)
        (left, top), steps = held.at, range(1, DRAG_STEPS + 1)
        for x, y in [(left + (end[0] - left) * n / DRAG_STEPS, top + (end[1] - top) * n / DRAG_STEPS) for n in steps]:
            await held.move(x, y)
        await held.move(*end)
        on_the_way = await heed(last=True)
        # Timers set during a rearrangement on the way only complete it.
        reacts_later |= on_the_way["timed"] and not on_the_way["rearranged"]
        if reacts_later and not held.carries_data:
            await targets.tab.pass_by(DWELL)
    except BaseException:  # the release is not awaited: the page may hang
        letting_go = asyncio.ensure_future(held.release(drop=False))
        letting_go.add_done_callback(lambda done: None if done.cancelled() else done.exception())
        raise
    await held.release()


async def _heed(page: PageScript, **where: Any) -> dict[str, bool]:
    """Return what the page has done in a drag since the last call (`page/press.js`).

    All values are False if the press has led to another document.
    """
    from playwright.async_api import Error

    with contextlib.suppress(ScriptError):
        try:
            return dict(await page.call("heedDrag", **where))
        except Error as error:
            if not document_was_replaced(error):
                raise
    return {"begun": False, "timed": False, "rearranged": False}


class _HeldMouse:
    """The mouse while its button is down, with the data it drags if the browser has begun a native drag.

    Args:
        tab: tab of the mouse.
    """

    def __init__(self, tab: Tab) -> None:
        self.at: Point = 0.0, 0.0
        self._tab = tab
        self._dragged: dict[str, Any] | None = None
        self._waited = False
        tab.dragged = asyncio.get_running_loop().create_future()

    @property
    def carries_data(self) -> bool:
        """Whether a native drag has begun, in which the page receives an event only when the mouse moves."""
        return self._dragged is not None

    async def press(self, at: Point) -> None:
        self.at = at
        await asyncio.gather(
            self._tab.protocol.send("Input.setInterceptDrags", {"enabled": True}),
            self._send("mouseMoved", button="none"),
            self._send("mousePressed", buttons=1, clickCount=1, force=PRESSURE),
        )

    async def move(self, x: float, y: float) -> None:
        """Move the mouse to a point; the page receives the move with its next frame."""
        if self._tab.dragged.done() and self._dragged is None:
            await self.take_over()
        self.at = x, y
        if self._dragged is not None:
            await self._drag("dragOver")
            return
        with self._tab.going_on():
            await self._send("mouseMoved", buttons=1, force=PRESSURE)

    async def take_over(self) -> None:
        """Continue as a native drag with the browser's data. Waits for the data only once, since none may come."""
        if self._dragged is None:
            bound, self._waited = 0.0 if self._waited else HANDED_OVER, True
            with contextlib.suppress(TimeoutError):
                self._dragged = await asyncio.wait_for(asyncio.shield(self._tab.dragged), bound)
                await self._drag("dragEnter")

    async def release(self, *, drop: bool = True) -> None:
        """Release the button. The dragged data is dropped, or with `drop=False` the drag is cancelled."""
        if self._dragged is None:
            letting_go = self._send("mouseReleased", clickCount=1)
        else:
            letting_go = self._drag("drop" if drop else "dragCancel")
        await asyncio.gather(letting_go, self._tab.protocol.send("Input.setInterceptDrags", {"enabled": False}))

    async def _send(self, type: str, *, button: str = "left", **more: Any) -> None:
        x, y = self.at
        event = {"type": type, "x": x, "y": y, "button": button, **more}
        await self._tab.protocol.send("Input.dispatchMouseEvent", event)

    async def _drag(self, type: str) -> None:
        x, y = self.at
        await self._tab.protocol.send("Input.dispatchDragEvent", {"type": type, "x": x, "y": y, "data": self._dragged})
