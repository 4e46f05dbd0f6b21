"""Mouse actions: click, hover, scroll; DOM events where the mouse can't reach."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from selfsurf.browser_env.act.targets import Point, Targets
from selfsurf.browser_env.actions import Click, Hover, Scroll
from selfsurf.browser_env.browser.page_script import read_script, with_dom
from selfsurf.browser_env.errors import ActionError

_MODIFIER_BITS = {"Alt": 1, "Control": 2, "Meta": 4, "Shift": 8, "ControlOrMeta": 4 if sys.platform == "darwin" else 2}

PRESSURE = 0.5
"""Pressure of a pressed mouse button in pointer events
(https://www.w3.org/TR/pointerevents/#dom-pointerevent-pressure)."""


async def click(targets: Targets, action: Click) -> str:
    """Click an element or a point; return how: `mouse` or `dom`."""
    id = await targets.resolve(action.id, action.selector)
    if id is None:
        return await press_at(targets, targets.on_page(float(action.x or 0), float(action.y or 0)), action)
    where = await targets.clear_way(id)
    if "covered" not in where:
        return await press_at(targets, (where["x"], where["y"]), action)
    if action.modifiers or action.button == "middle":
        raise ActionError(f"Element {id} is covered by {where['covered']}; only a plain click can reach it.", "blocked")
    await targets.ask("domClick", id, count=action.count, button=action.button)
    targets.session.note(f"clicked [{id}] through {where['covered']}, which covers it, by a script's event")
    return "dom"


async def click_again(targets: Targets, action: Click) -> bool:
    """Click again after a press that was stopped because something else had come under the mouse.

    Returns:
        Whether the element was clicked: not if it is covered now, or can't be clicked any more.
    """
    if action.id is None:
        return False
    try:
        where = await targets.clear_way(action.id)
    except ActionError:
        return False
    if "covered" in where:
        return False
    await press_at(targets, (where["x"], where["y"]), action)
    return True


async def press_at(targets: Targets, point: Point, action: Click) -> str:
    """Move, press and release without waiting in between: a move alone is delayed until the next frame (17 ms)."""
    keyboard = targets.tab.page.keyboard
    mask = sum({_MODIFIER_BITS[key] for key in action.modifiers})
    at = {"x": point[0], "y": point[1], "modifiers": mask}
    held = {"left": 1, "right": 2, "middle": 4}[action.button]
    events: list[dict[str, Any]] = [{"type": "mouseMoved", "button": "none", **at}]
    for count in range(1, action.count + 1):
        pressed = {"button": action.button, "clickCount": count, **at}
        events.append({"type": "mousePressed", "buttons": held, "force": PRESSURE, **pressed})
        events.append({"type": "mouseReleased", **pressed})
    try:
        for key in action.modifiers:
            await keyboard.down(key)
        await asyncio.gather(*(targets.tab.protocol.send("Input.dispatchMouseEvent", event) for event in events))
    finally:
        for key in action.modifiers:
            await keyboard.up(key)
    return "mouse"


async def hover(targets: Targets, action: Hover) -> str:
    """Move the mouse over an element or a point."""
    id = await targets.resolve(action.id, action.selector)
    if id is None:
        x, y = targets.on_page(float(action.x or 0), float(action.y or 0))
    else:
        where = await targets.clear_way(id, hover=True)
        if "covered" in where:
            await targets.ask("domHover", id)
            return "dom"
        x, y = where["x"], where["y"]
    await targets.tab.page.mouse.move(x, y)
    if id is not None:  # leaving another element may have closed it and moved this one
        where = await targets.locate(id, hover=True)
        if "covered" not in where and (where["x"], where["y"]) != (x, y):
            await targets.tab.page.mouse.move(where["x"], where["y"])
    return "mouse"


async def scroll(targets: Targets, action: Scroll) -> str:
    """Scroll the page, an element, or the content under a point.

    The wheel is turned if the page handles the wheel at the point itself, or if nothing scrolls: maps listen to the
    wheel.
    """
    id = await targets.resolve(action.id, action.selector)
    size = targets.tab.page.viewport_size or {"width": 0, "height": 0}
    point: Point = size["width"] / 2, size["height"] / 2
    if action.x is not None and action.y is not None:
        point = targets.on_page(action.x, action.y)
    elif id is not None:
        where = await targets.locate(id, hover=True)
        point = where["x"], where["y"]
        if "covered" in where or not await _takes_wheel(targets, point):
            answer = await targets.ask("scroll", id, dx=action.dx, dy=action.dy)
            if answer["moved"] or not (action.dx or action.dy):
                return "dom"
    elif not await _takes_wheel(targets, point):
        answer = await targets.tab.call("scroll", id=None, dx=action.dx, dy=action.dy)
        if answer["moved"] or not (action.dx or action.dy):
            return "dom"
    before = await targets.tab.call("scrolledTo", x=point[0], y=point[1])
    wheel = {"type": "mouseWheel", "x": point[0], "y": point[1], "deltaX": action.dx, "deltaY": action.dy}
    await targets.tab.protocol.send("Input.dispatchMouseEvent", wheel)
    await targets.tab.call("settle", frames=5, bound=200)
    if before and await targets.tab.call("scrolledTo", x=point[0], y=point[1]) == before:
        world = targets.tab.main if id is None else targets.world(id)
        if await world.call("saysLoading"):
            why = "the page shows that it is loading more"
        elif targets.tab.fetching(-1):
            why = "the end may be reached, or what was requested is still to come"
        else:
            why = "the end may be reached, or this does not scroll"
        targets.session.note(f"nothing scrolled: {why}")
    return "mouse"


async def _takes_wheel(targets: Targets, point: Point) -> bool:
    """Whether the page listens to the wheel at a point, so that the wheel may do something other than scroll."""
    function = with_dom(read_script("wheels"))
    asked = {"expression": f"({function})({point[0]}, {point[1]})", "includeCommandLineAPI": True}
    answer = await targets.tab.protocol.send("Runtime.evaluate", {**asked, "returnByValue": True})
    return answer["result"].get("value") is True
