"""Carries actions out the way a user would: a hit-tested mouse, a keyboard, and DOM events as the last resort."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from typing import Any

from browser_env.actions import (
    Action,
    Back,
    Click,
    CloseTab,
    Drag,
    Fill,
    FocusTab,
    Forward,
    Hover,
    Navigate,
    NewTab,
    Press,
    Scroll,
    Select,
    Type,
    Upload,
    Wait,
)  # fmt: skip
from browser_env.errors import ActionError
from browser_env.safety.files import uploadable
from browser_env.session import Session
from browser_env.tab import Place, Tab

NAVIGATION_TIMEOUT = 15.0
"""Seconds for a server to answer a `navigate`."""

TYPE_LIMIT = 5000
"""Characters that one `type` action may have; `fill` takes any amount at once."""

_MODIFIER_BITS = {"Alt": 1, "Control": 2, "Meta": 4, "Shift": 8, "ControlOrMeta": 4 if sys.platform == "darwin" else 2}

_KEYS = {
    "ctrl": "Control", "control": "Control", "cmd": "Meta", "command": "Meta", "meta": "Meta", "alt": "Alt",
    "option": "Alt", "shift": "Shift", "controlormeta": "ControlOrMeta", "enter": "Enter", "return": "Enter",
    "esc": "Escape", "escape": "Escape", "tab": "Tab", "space": "Space", "backspace": "Backspace",
    "delete": "Delete", "del": "Delete", "up": "ArrowUp", "down": "ArrowDown", "left": "ArrowLeft",
    "right": "ArrowRight", "arrowup": "ArrowUp", "arrowdown": "ArrowDown", "arrowleft": "ArrowLeft",
    "arrowright": "ArrowRight", "home": "Home", "end": "End", "pageup": "PageUp", "pagedown": "PageDown",
    "insert": "Insert",
}  # fmt: skip


class Hands:
    """Carries out actions in a session.

    Args:
        session: where to act; the active tab is meant.
        foreign: elements in frames of another origin, with the place of the frame.
        at_once: `type` puts its text in as a whole, not key by key: it holds a secret, which the page could otherwise
            repeat piece by piece.
    """

    def __init__(self, session: Session, foreign: dict[int, Place], *, at_once: bool = False) -> None:
        self.session = session
        self.foreign = foreign
        self.at_once = at_once

    @property
    def tab(self) -> Tab:
        """The active tab."""
        return self.session.active

    async def perform(self, action: Action) -> str:
        """Carry an action out.

        Returns:
            Which way it went: `mouse`, `keyboard`, `dom` (DOM events, where no click could reach), or `browser`.

        Raises:
            ActionError: it can't be done on this page; the message tells the agent why.
        """
        match action:
            case Click():
                return await self._click(action)
            case Hover():
                x, y = await self._aim(action.id, action.x, action.y, hover=True)
                await self.tab.page.mouse.move(x, y)
                return "mouse"
            case Fill():
                return await self._fill(action)
            case Type():
                return await self._type(action)
            case Press():
                return await self._press(action)
            case Select():
                await self._ask("select", action.id, options=list(action.options))
                return "dom"
            case Scroll():
                await self._scroll(action)
                return "dom"
            case Drag():
                return await self._drag(action)
            case Upload():
                await self._upload(action)
                return "browser"
            case _:
                await self._browse(action)
                return "browser"

    async def _ask(self, method: str, id: int, **arguments: Any) -> dict[str, Any]:
        """Call an in-page method about an element and turn what it complains of into an ActionError."""
        if id in self.foreign:
            answer = await self.foreign[id].world.call(method, id=id, **arguments)
        else:
            answer = await self.tab.call(method, id=id, **arguments)
        answer = answer or {}
        if "error" in answer:
            raise ActionError(_complaint(id, answer))
        return dict(answer)

    async def _locate(self, id: int, *, hover: bool = False) -> dict[str, Any]:
        where = await self._ask("locate", id, hover=hover)
        if id not in self.foreign:
            return where
        left, top, free = await self.foreign[id].offset(where["x"], where["y"])
        covered = {} if free else {"covered": "something outside of its frame"}
        return {**where, **covered, "x": where["x"] + left, "y": where["y"] + top}

    async def _aim(self, id: int | None, x: float | None, y: float | None, *, hover: bool = False) -> Point:
        if id is None:
            return self._on_page(float(x or 0), float(y or 0))
        where = await self._locate(id, hover=hover)
        return where["x"], where["y"]

    async def _click(self, action: Click) -> str:
        keyboard = self.tab.page.keyboard
        if action.id is None:
            x, y = self._on_page(float(action.x or 0), float(action.y or 0))
        else:
            where = await self._locate(action.id)
            if "covered" in where:
                # Something may be moving away (an animation, a fading overlay): look once more after two frames.
                await self.tab.call("settle", frames=2, bound=300)
                where = await self._locate(action.id)
            if "covered" in where and action.button == "left" and not action.modifiers:
                for _ in range(action.count):
                    await self._ask("domClick", action.id)
                return "dom"
            x, y = where["x"], where["y"]
        for key in action.modifiers:
            await keyboard.down(key)
        try:
            await self._press_mouse(x, y, action)
        finally:
            for key in action.modifiers:
                await keyboard.up(key)
        return "mouse"

    async def _press_mouse(self, x: float, y: float, action: Click) -> None:
        """Move, press and release without waiting between: a lone move is held back until the next frame (17 ms)."""
        mask = sum({_MODIFIER_BITS[key] for key in action.modifiers})
        at = {"x": x, "y": y, "modifiers": mask}
        held = {"left": 1, "right": 2, "middle": 4}[action.button]
        events: list[dict[str, Any]] = [{"type": "mouseMoved", "button": "none", **at}]
        for count in range(1, action.count + 1):
            pressed = {"button": action.button, "clickCount": count, **at}
            events.append({"type": "mousePressed", "buttons": held, **pressed})
            events.append({"type": "mouseReleased", **pressed})
        await asyncio.gather(*(self.tab.protocol.send("Input.dispatchMouseEvent", event) for event in events))

    async def _fill(self, action: Fill) -> str:
        ready = await self._ask("prepareFill", action.id, text=action.text)
        if ready.get("done"):
            return "dom"
        if action.text:
            await self.tab.page.keyboard.insert_text(action.text)
        elif not ready.get("empty"):
            await self.tab.page.keyboard.press("Delete")
        return "keyboard"

    async def _type(self, action: Type) -> str:
        if len(action.text) > TYPE_LIMIT:
            raise ActionError(f"At most {TYPE_LIMIT} characters can be typed key by key; use fill for more.")
        if action.id is not None:
            where = await self._locate(action.id)
            await self.tab.page.mouse.click(where["x"], where["y"])
        keyboard = self.tab.page.keyboard
        if not self.at_once:
            await keyboard.type(action.text)
            return "keyboard"
        for number, line in enumerate(action.text.split("\n")):
            if number:
                await keyboard.press("Enter")
            if line:
                await keyboard.insert_text(line)
        return "keyboard"

    async def _press(self, action: Press) -> str:
        chord = key_chord(action.key)
        if action.id is not None:
            await self._ask("focus", action.id)
        from playwright.async_api import Error

        try:
            await self.tab.page.keyboard.press(chord)
        except Error as error:
            if "Unknown key" in str(error):
                raise ActionError(f"There is no key {action.key!r}; keys are Enter, Tab, a, Control+a, ...") from None
            raise
        return "keyboard"

    async def _scroll(self, action: Scroll) -> None:
        if action.id is not None:
            await self._ask("scroll", action.id, dx=action.dx, dy=action.dy)
        else:
            await self.tab.call("scroll", id=None, dx=action.dx, dy=action.dy)

    async def _drag(self, action: Drag) -> str:
        start = await self._point(action.from_)
        mouse = self.tab.page.mouse
        await mouse.move(*start)
        await mouse.down()
        try:
            end = await self._point(action.to)
            middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
            await mouse.move(*middle, steps=4)
            await mouse.move(*end, steps=4)
            await mouse.move(*end)
        finally:
            await mouse.up()
        return "mouse"

    async def _point(self, target: int | Point) -> Point:
        if isinstance(target, int):
            where = await self._locate(target, hover=True)
            return where["x"], where["y"]
        return self._on_page(float(target[0]), float(target[1]))

    def _on_page(self, x: float, y: float) -> Point:
        size = self.tab.page.viewport_size
        if size and not (0 <= x < size["width"] and 0 <= y < size["height"]):
            raise ActionError(f"The point {x:g}, {y:g} is outside of the view, {size['width']} by {size['height']}.")
        return x, y

    async def _upload(self, action: Upload) -> None:
        files = uploadable(action.files, self.session.border.safety.upload_from)
        world = self.foreign[action.id].world if action.id in self.foreign else self.tab.main
        node = await world.call("node", id=action.id)
        if "objectId" not in node:
            raise ActionError(_complaint(action.id, {"error": "gone"}))
        if node.get("className") != "HTMLInputElement":
            raise ActionError(f"Element {action.id} is not a file input.")
        try:
            await world.protocol.send("DOM.setFileInputFiles", {"files": files, "objectId": node["objectId"]})
        except Exception as error:
            if "not a file input" in str(error).lower():
                raise ActionError(f"Element {action.id} is not a file input.") from None
            raise

    async def _browse(self, action: Action) -> None:
        from playwright.async_api import Error

        page = self.tab.page
        timeout = NAVIGATION_TIMEOUT * 1000
        try:
            match action:
                case Navigate():
                    await page.goto(await self._admitted(action.url), wait_until="commit", timeout=timeout)
                case Back():
                    if await page.go_back(wait_until="commit", timeout=timeout) is None:
                        raise ActionError("There is no page to go back to.")
                case Forward():
                    if await page.go_forward(wait_until="commit", timeout=timeout) is None:
                        raise ActionError("There is no page to go forward to.")
                case NewTab():
                    await self.session.new_tab(await self._admitted(action.url) if action.url else "")
                case CloseTab():
                    await self.session.close_tab()
                case FocusTab():
                    if action.index >= len(self.session.tabs):
                        raise ActionError(f"There are {len(self.session.tabs)} tabs; the first has index 0.")
                    await self.session.focus_tab(action.index)
                case Wait():
                    await page.wait_for_timeout(action.ms)
        except Error as error:
            if "net::" in str(error) or "invalid URL" in str(error) or "Timeout" in str(error):
                with contextlib.suppress(Error):  # there may be nothing left to stop
                    await self.tab.protocol.send("Page.stopLoading")
                why = self.session.border.explain(str(error).splitlines()[0])
                raise ActionError(f"The page did not load: {why}") from None
            raise

    async def _admitted(self, url: str) -> str:
        """Return the full form of an address that may be opened."""
        border = self.session.border
        full = url if border.folders and url.startswith("file:///") else _full_url(url)
        await border.admit(full)
        return full


Point = tuple[float, float]


def key_chord(key: str) -> str:
    """Bring a key or chord into Playwright's spelling: `ctrl+A` -> `Control+A`, `esc` -> `Escape`."""
    if key == "+" or len(key) == 1:
        return key
    parts = key.split("+") if not key.endswith("++") else [*key[:-2].split("+"), "+"]
    return "+".join(_KEYS.get(part.strip().lower(), part.strip()) for part in parts)


def _full_url(url: str) -> str:
    if url.startswith(("http://", "https://", "about:", "data:")):
        return url
    if "://" in url or (":" in url.split("/")[0] and not url.split("/")[0].rsplit(":", 1)[1].isdigit()):
        raise ActionError(f"{url!r} is not an address that can be opened; those begin with http:// or https://.")
    return f"https://{url}"


def _complaint(id: int, answer: dict[str, Any]) -> str:
    """One sentence for the agent about what is wrong with its target."""
    match answer["error"]:
        case "unknown":
            return f"There is no element {id} on the page; use an id from the outline."
        case "gone":
            return f"Element {id} is no longer on the page."
        case "disabled":
            return f"Element {id} is disabled."
        case "hidden":
            return f"Element {id} is not visible."
        case "readonly":
            return f"Element {id} is read-only; it can't be typed into."
        case "format":
            return f"Element {id} did not accept the text; a field of type {answer['type']} needs its own format."
        case "option":
            return f"Element {id} has no option {answer['option']!r}; it has {', '.join(answer['options'])}."
        case "single":
            return f"Element {id} takes one option only."
        case "kind":
            return f"Element {id} is a {answer['kind']}, which this action is not for."
    return f"Element {id}: {answer['error']}."
