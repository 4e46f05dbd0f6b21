"""Search for the elements that actions name, and for the points at which the mouse reaches them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from selfsurf.browser_env.act.locator import find_element
from selfsurf.browser_env.act.refusals import refused
from selfsurf.browser_env.browser.page_script import PageScript
from selfsurf.browser_env.errors import ActionError, ScriptError
from selfsurf.browser_env.observation import Element
from selfsurf.browser_env.session.session import Session
from selfsurf.browser_env.session.tab import ForeignFrame, Tab

Point = tuple[float, float]

MOTION_BOUND = 0.5
"""Seconds that running transitions may take before an element counts as covered or out of reach."""

OVERLAYS = 2
"""Number of overlays that may fade one after the other: a dialog, then the layer that dims the page behind it."""


class Targets:
    """The page as the target of actions.

    Args:
        session: session to act in, in the tab that is active now, even if other tabs open meanwhile.
        foreign: frames of other origins by the ids of their elements.
        elements: elements of the last observation, in which selectors are looked up first.
    """

    def __init__(self, session: Session, foreign: dict[int, ForeignFrame], elements: Sequence[Element]) -> None:
        self.session = session
        self.tab: Tab = session.active
        self.foreign = foreign
        self.elements = elements

    async def resolve(self, id: int | None, selector: str | None) -> int | None:
        """Return the id of the element that an action names; None if it names no element.

        Raises:
            ActionError: no element matches the selector, or several do.
        """
        return id if selector is None else await find_element(self, selector)

    def world(self, id: int) -> PageScript:
        """Return the script in an element's frame."""
        return self.foreign[id].world if id in self.foreign else self.tab.main

    def note_focused(self) -> None:
        """Record that the step acts in the frame of the focused element."""
        id = next((one["id"] for one in self.elements if "focused" in one["states"]), None)
        self.session.acted_in = None if id is None else self.world(id)

    async def ask(self, method: str, id: int, **arguments: Any) -> dict[str, Any]:
        """Call an in-page method on an element; a refusal becomes an ActionError."""
        self.session.acted_in = world = self.world(id)
        try:
            answer = await self.call(world, method, id=id, **arguments)
        except ScriptError as error:
            raise ActionError(f"Element {id} can't be used. {error}", "blocked") from error
        if "error" in answer:
            raise refused(id, answer)
        return answer

    async def call(self, world: PageScript, method: str, **arguments: Any) -> dict[str, Any]:
        """Call an in-page method that may give elements new ids, which are unique in the episode."""
        answer = await world.call("withIds", name=method, firstId=self.session.next_id, **arguments)
        self.session.next_id = max(self.session.next_id, answer.pop("nextId"))
        return dict(answer)

    def in_frame_of(self, id: int, other: int) -> int:
        """Record that element `other` is in the same frame as element `id`, and return `other`."""
        if id in self.foreign:
            self.foreign[other] = self.foreign[id]
        else:
            self.foreign.pop(other, None)
        return other

    async def locate(self, id: int, *, hover: bool = False, drop: bool = False, words: bool = True) -> dict[str, Any]:
        """Return the point (`x`, `y` in the top frame) where the mouse reaches an element, and what it is `covered` by.

        The element is scrolled into view if needed. Unless `hover` is set, a press follows, which is stopped if it
        would reach something else (`Session.missed`). With `drop`, the element need not take the mouse. With `words`,
        items are reached at their words, otherwise in the middle.
        """
        press = 0 if hover else self.session.aim()
        where = await self.ask("locate", id, hover=hover, press=press, drop=drop, words=words)
        if id not in self.foreign:
            return where
        return await self._out_of_frame(self.foreign[id], where, press)

    async def check_press(self, id: int) -> None:
        """Check at once that the last press has reached an element, which is otherwise reported at the end of the step.

        Raises:
            ActionError: the press reached something else.
        """
        self.session.note_missed(await self.world(id).call("missed"))
        if self.session.missed:
            raise ActionError(self.session.missed, "blocked")

    async def clear_way(self, id: int, *, hover: bool = False) -> dict[str, Any]:
        """Locate an element; retry if it is covered or out of reach, since overlays fade and menus move."""
        try:
            where = await self.locate(id, hover=hover)
        except ActionError as error:
            if error.kind != "blocked" or not await self.world(id).call("stilled", bound=MOTION_BOUND * 1000):
                raise
            return await self.locate(id, hover=hover)
        moves = True
        for _ in range(OVERLAYS):
            if "covered" not in where or not moves:
                break
            moves = await self.world(id).call("stilled", bound=MOTION_BOUND * 1000)
            await self.tab.call("settle", frames=2, bound=300)
            where = await self.locate(id, hover=hover)
        return where

    async def _out_of_frame(self, place: ForeignFrame, where: dict[str, Any], press: int) -> dict[str, Any]:
        """Convert a point in a frame of another origin to the top frame, scrolling to the frame if needed."""
        x, y = where["x"], where["y"]
        left, top, free = await place.to_top(x, y, press)
        if not self._in_view(left, top) or not free:
            await place.parent.call("showFrame", index=place.index, x=x, y=y)
            left, top, free = await place.to_top(x, y, press)
        covered = {} if free else {"covered": "something outside of its frame"}
        return {**where, **covered, "x": left, "y": top}

    def _in_view(self, x: float, y: float) -> bool:
        size = self.tab.page.viewport_size
        return not size or (0 <= x < size["width"] and 0 <= y < size["height"])

    async def resolve_point(self, target: int | Point | str) -> int | Point:
        """Return an end of a drag as a point or an element's id."""
        return await find_element(self, target) if isinstance(target, str) else target

    async def point(self, target: int | Point, *, press: bool = False) -> Point:
        """Return the point of a drag's end; an element is scrolled into view.

        Raises:
            ActionError: the end is outside of the view, or covered where it has to be pressed.
        """
        if isinstance(target, tuple):
            return self.on_page(float(target[0]), float(target[1]))
        where = await self.locate(target, hover=not press, drop=not press, words=False)
        if press and "covered" in where:
            raise ActionError(
                f"Element {target} is covered by {where['covered']}; the mouse can't take hold of it.", "blocked"
            )
        return where["x"], where["y"]

    def on_page(self, x: float, y: float) -> Point:
        """Return a point after checking that it is inside the viewport.

        Raises:
            ActionError: the point is outside of the viewport.
        """
        if not self._in_view(x, y):
            size = self.tab.page.viewport_size or {"width": 0, "height": 0}
            raise ActionError(f"The point {x:g}, {y:g} is outside of the view, {size['width']} by {size['height']}.")
        return x, y
