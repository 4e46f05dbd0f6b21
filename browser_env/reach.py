"""Finds the elements that actions name, and the points where the mouse reaches them. Presses nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from browser_env.complaints import complaint
from browser_env.errors import ActionError
from browser_env.lookup import find_element
from browser_env.observation import Element
from browser_env.session import Session
from browser_env.tab import Tab

if TYPE_CHECKING:
    from playwright.async_api import Frame

Point = tuple[float, float]
Foreign = dict[int, tuple["Frame", Point]]
"""Elements in frames of another origin: the frame, and its offset in the top frame when it was observed."""


class Reach:
    """The page as actions see it.

    Args:
        session: where to act; the active tab is meant.
        foreign: elements in frames of another origin.
        elements: the elements of the last observation; selectors are looked up in it first.
    """

    def __init__(self, session: Session, foreign: Foreign, elements: Sequence[Element]) -> None:
        self.session = session
        self.foreign = foreign
        self.elements = elements

    @property
    def tab(self) -> Tab:
        """The active tab."""
        return self.session.active

    async def resolve(self, id: int | None, selector: str | None) -> int | None:
        """Return the id of the element that an action names, or None when it names none.

        Raises:
            ActionError: no element matches the selector, or several do.
        """
        return id if selector is None else await find_element(self, selector)

    async def ask(self, method: str, id: int, **arguments: Any) -> dict[str, Any]:
        """Call an in-page method about an element and turn what it complains of into an ActionError."""
        if id in self.foreign:
            answer = await self.tab.call_in_frame(self.foreign[id][0], method, id=id, **arguments)
        else:
            answer = await self.tab.call(method, id=id, **arguments)
        answer = answer or {}
        if "error" in answer:
            raise ActionError(complaint(id, answer))
        return dict(answer)

    async def locate(self, id: int, *, hover: bool = False) -> dict[str, Any]:
        """Return where the mouse reaches an element: `x`, `y` in the top frame, and `covered` by what, if it is.

        The element is scrolled into view when it has to be.
        """
        where = await self.ask("locate", id, hover=hover)
        if id not in self.foreign:
            return where
        return await self._through_frame(self.foreign[id][0], where)

    async def clear_way(self, id: int, *, hover: bool = False) -> dict[str, Any]:
        """Locate an element; if something covers it, look once more: an overlay may be fading, a menu moving."""
        where = await self.locate(id, hover=hover)
        if "covered" in where:
            await self.tab.call("settle", frames=2, bound=300)
            where = await self.locate(id, hover=hover)
        return where

    async def _through_frame(self, frame: Frame, where: dict[str, Any]) -> dict[str, Any]:
        """Turn a point of another origin's frame into one of the top frame; the frame may have to be scrolled to."""
        dx, dy = await _offset(frame)
        size = self.tab.page.viewport_size
        if size and not (0 <= where["x"] + dx < size["width"] and 0 <= where["y"] + dy < size["height"]):
            holder = await frame.frame_element()
            await holder.evaluate(_SHOW, [where["x"], where["y"]])
            dx, dy = await _offset(frame)
        point = {"x": where["x"] + dx, "y": where["y"] + dy}
        over = await self.tab.call("frameOver", **point)
        return {**where, **point, **({} if "covered" in where or not over else {"covered": over})}

    async def resolve_point(self, target: int | Point | str) -> int | Point:
        """Return a drag's end with its selector, if it is one, looked up."""
        return await find_element(self, target) if isinstance(target, str) else target

    async def point(self, target: int | Point) -> Point:
        """Return the point of a drag's end, scrolled into view if it is an element."""
        if isinstance(target, tuple):
            return self.on_page(float(target[0]), float(target[1]))
        where = await self.locate(target, hover=True)
        return where["x"], where["y"]

    def on_page(self, x: float, y: float) -> Point:
        """Return the point as it is.

        Raises:
            ActionError: it lies outside of the viewport.
        """
        size = self.tab.page.viewport_size
        if size and not (0 <= x < size["width"] and 0 <= y < size["height"]):
            raise ActionError(f"The point {x:g}, {y:g} is outside of the view, {size['width']} by {size['height']}.")
        return x, y


_SHOW = """(holder, [x, y]) => {
  const rect = holder.getBoundingClientRect();
  for (let box = holder.parentElement; box; box = box.parentElement) {
    const outer = box.getBoundingClientRect();
    const at = rect.top + y;
    if (box.scrollHeight > box.clientHeight && box !== document.scrollingElement && (at < outer.top || at > outer.bottom)) {
      box.scrollBy({top: at - outer.top - outer.height / 2, behavior: 'instant'});
    }
  }
  const moved = holder.getBoundingClientRect();
  scrollBy({left: moved.left + x - innerWidth / 2, top: moved.top + y - innerHeight / 2, behavior: 'instant'});
}"""
"""Scrolls the page that holds a frame so that a point of the frame is in the middle of the view."""


async def _offset(frame: Frame) -> Point:
    """Where a frame's content begins, in the top frame's viewport."""
    holder = await frame.frame_element()
    box, border = await asyncio.gather(
        holder.bounding_box(), holder.evaluate("holder => [holder.clientLeft, holder.clientTop]")
    )
    if box is None:
        raise ActionError("The frame of this element is not visible.")
    return box["x"] + border[0], box["y"] + border[1]
