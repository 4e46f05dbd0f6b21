"""Drags with the mouse, and those that the browser itself makes of them, which carry data.

The latter follow the system's mouse, which there is none of here. Asked to, Chromium hands over what is dragged, and is
told where it goes instead (https://chromedevtools.github.io/devtools-protocol/tot/Input/#event-dragIntercepted).
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from selfsurf.browser_env.act.mouse import PRESSURE
from selfsurf.browser_env.act.targets import Point, Targets
from selfsurf.browser_env.actions import Drag
from selfsurf.browser_env.errors import ActionError, ScriptError
from selfsurf.browser_env.session.page_script import PageScript, document_was_replaced
from selfsurf.browser_env.session.tab import Tab

HOLD = 300.0
"""Milliseconds that a drag which did nothing holds still at its second try; lists that scroll by touch want 250."""

DRAG_STEPS = 5
"""Mouse moves in a drag; pages measure the distance and what is passed on the way."""

DWELL = 150.0
"""Milliseconds that the mouse stays at the target where the page keeps time: SortableJS looks every 50, Muuri every
100."""

HANDED_OVER = 1.0
"""Seconds for what is dragged to be handed over, once the page has let a drag begin; it is a millisecond."""


async def drag(targets: Targets, action: Drag) -> str:
    """Press at one place, move to the other in steps, through the points of `via` if any, and release.

    A drag of an element that changes nothing on the page is tried once more, holding still after the press: some lists
    take that for the sign that something is to be moved.

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
    """Return the page's edition, its markup if it has no frames or shadow roots, and the number of its requests."""
    tab = targets.tab
    edition, markup = await asyncio.gather(tab.call("edition"), tab.call("pageText"))
    return edition, markup, tab.clock


async def _unchanged(targets: Targets, source: int, before: tuple[str, str | None, int]) -> bool:
    """Has nothing come of it? What an element like a canvas shows can't be known, nor what frames do.

    A request is an effect, whatever the page makes of its answer.
    """
    if source in targets.foreign or (await targets.ask("draws", source))["draws"]:
        return False
    await targets.tab.call("settle", frames=2, bound=200)
    edition, markup, clock = await _state(targets)
    return clock == before[2] and (edition == before[0] or (markup is not None and markup == before[1]))


async def _drag_once(targets: Targets, action: Drag, source: int | Point, target: int | Point, hold: float) -> None:
    """Drag.

    The target is located after the drag has begun, which may move things, and is scrolled into view with the mouse held
    down. Both ends are located once before that: a press with nowhere to go would be a click.
    """
    await targets.point(target)
    start = await targets.point(source, press=True)
    way = [targets.on_page(*point) for point in action.via]
    id = None if isinstance(source, tuple) else source
    page = targets.tab.main if id is None else targets.world(id)
    held = _HeldMouse(targets.tab)
    await _ask(page, "heedDrag", id=id, last=False)
    await held.press(start)
    try:
        if hold:
            await targets.tab.pass_by(hold)
        # A few pixels first: browsers and libraries begin a drag at the press, once the mouse has moved a little.
        for x, y in way or [(start[0] + 3, start[1] + 3), (start[0] + 6, start[1] + 6)]:
            await held.move(x, y)
            ours = id not in targets.foreign  # other sites' are never handed over
            if ours and await _ask(targets.tab.main, "dragBegan", id=id, x=start[0], y=start[1]):
                await held.take_over()
        at_start = await _ask(page, "heedDrag", id=id, last=False)
        end = await targets.point(target)
        (left, top), steps = held.at, range(1, DRAG_STEPS + 1)
        for x, y in [(left + (end[0] - left) * n / DRAG_STEPS, top + (end[1] - top) * n / DRAG_STEPS) for n in steps]:
            await held.move(x, y)
        await held.move(*end)
        if _reacts_later(at_start, await _ask(page, "heedDrag", id=id, last=True)) and not held.carries_data:
            await targets.tab.pass_by(DWELL)
    except BaseException:  # not to be awaited: the page may hang
        letting_go = asyncio.ensure_future(held.release(drop=False))
        letting_go.add_done_callback(lambda done: None if done.cancelled() else done.exception())
        raise
    await held.release()


def _reacts_later(at_start: dict[str, bool] | None, on_the_way: dict[str, bool] | None) -> bool:
    """Will the page look at the mouse only later: has it started timers at the drag's start, or on the way?

    Timers that go with a rearrangement on the way only follow it up.
    """
    if at_start is None or on_the_way is None:
        return False
    return at_start["timed"] or (on_the_way["timed"] and not on_the_way["rearranged"])


async def _ask(page: PageScript, method: str, **arguments: Any) -> Any:
    """Return the page's answer about a drag; None where the press has led elsewhere."""
    from playwright.async_api import Error

    try:
        return await page.call(method, **arguments)
    except ScriptError:
        return None
    except Error as error:
        if document_was_replaced(error):
            return None
        raise


class _HeldMouse:
    """The mouse while its button is down, and what it drags, if the browser has made a drag of that.

    Args:
        tab: where it is.
    """

    def __init__(self, tab: Tab) -> None:
        self.at: Point = 0.0, 0.0
        self._tab = tab
        self._dragged: dict[str, Any] | None = None
        self._waited = False
        tab.dragged = asyncio.get_running_loop().create_future()

    @property
    def carries_data(self) -> bool:
        """Has the browser made a drag of it, in which the page hears of the mouse only as it moves?"""
        return self._dragged is not None

    async def press(self, at: Point) -> None:
        self.at = at
        await asyncio.gather(
            self._tab.protocol.send("Input.setInterceptDrags", {"enabled": True}),
            self._send("mouseMoved", button="none"),
            self._send("mousePressed", buttons=1, clickCount=1, force=PRESSURE),
        )

    async def move(self, x: float, y: float) -> None:
        """Move there, which the page is told with its next frame."""
        if self._tab.dragged.done() and self._dragged is None:
            await self.take_over()
        self.at = x, y
        if self._dragged is not None:
            await self._drag("dragOver")
            return
        with self._tab.going_on():
            await self._send("mouseMoved", buttons=1, force=PRESSURE)

    async def take_over(self) -> None:
        """Drag from now on what the browser hands over. It is waited for once: nothing may come."""
        if self._dragged is None:
            bound, self._waited = 0.0 if self._waited else HANDED_OVER, True
            with contextlib.suppress(TimeoutError):
                self._dragged = await asyncio.wait_for(asyncio.shield(self._tab.dragged), bound)
                await self._drag("dragEnter")

    async def release(self, *, drop: bool = True) -> None:
        """Let go; what is dragged falls on what is there, if it is to drop."""
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
