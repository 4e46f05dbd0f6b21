"""Raw limit: the minimal work for a step, reset or observation over the same connection and browser.

It consists of a mouse click, one in-page pass and one screenshot, awaited one after the other; in a browser whose page
time is controlled from outside, of a click, one frame with its picture and one pass. It uses a context of its own and
nothing of the environment except the source of the pass: no session, settling, unpacking or decoding.
"""

from __future__ import annotations

import asyncio
import base64
from dataclasses import asdict
from typing import Any

import numpy as np

from selfsurf.browser_env.browser.page_script import install_listeners, script_source
from selfsurf.browser_env.browser.page_time import FRAME, PageTime
from selfsurf.browser_env.browser.runtime import BrowserSpec, runtime
from selfsurf.browser_env.limits import Limits
from selfsurf.browser_env.session.tab import protocol_of
from selfsurf.tasks.miniwob import MiniWobTask

PASS = {"firstId": 1, "stamp": False, "origin": None, "screen": None, "reach": 2.0, "limits": asdict(Limits())}
"""Arguments of the in-page pass in a default environment."""


class RawPage:
    """A page in a context of its own, created by `RawPage.open`. Its coroutines run on the runtime's loop."""

    def __init__(self, context: Any, page: Any, protocol: Any) -> None:
        self.page = page
        self._context = context
        self._protocol = protocol
        self._time: PageTime | None = getattr(protocol, "time", None)
        self._script = ""

    @classmethod
    async def open(cls, viewport: tuple[int, int], *, held: bool = False) -> RawPage:
        """Open a blank page.

        Args:
            viewport: Width and height in CSS pixels.
            held: Whether to control the page's time and frames, if the browser can do that.
        """
        browser = await runtime().browser(BrowserSpec(holds_time="if it can" if held else "no"))
        context = await browser.new_context(viewport={"width": viewport[0], "height": viewport[1]})
        page = await context.new_page()
        protocol, _ = await protocol_of(page)
        await protocol.send("Page.enable")
        await install_listeners(protocol)
        return cls(context, page, protocol)

    async def install(self) -> None:
        """Inject the in-page script into the current document; every new document needs another injection."""
        tree = await self._protocol.send("Page.getFrameTree")
        world = await self._protocol.send(
            "Page.createIsolatedWorld", {"frameId": tree["frameTree"]["frame"]["id"], "worldName": "raw"}
        )
        answer = await self._protocol.send(
            "Runtime.evaluate", {"expression": script_source(), "contextId": world["executionContextId"]}
        )
        self._script = answer["result"]["objectId"]

    async def seen(self) -> str:
        """Run the in-page pass once and return its JSON.

        Raises:
            RuntimeError: The script threw, or returned no text.
        """
        answer = await self._protocol.send(
            "Runtime.callFunctionOn",
            {
                "objectId": self._script,
                "functionDeclaration": "function(what){return this.observe(what)}",
                "arguments": [{"value": PASS}],
                "returnByValue": True,
            },
        )
        text = answer["result"].get("value")
        if not isinstance(text, str):
            raise RuntimeError(f"The in-page pass failed: {answer.get('exceptionDetails', answer)}")
        return text

    async def screenshot(self) -> bytes:
        """Return a PNG of the viewport."""
        if self._time is not None:
            return base64.b64decode(await self._time.picture(FRAME))
        answer = await self._protocol.send("Page.captureScreenshot", {"format": "png", "optimizeForSpeed": True})
        return base64.b64decode(answer["data"])

    async def press(self, x: float, y: float) -> None:
        """Move the mouse to a point and click."""
        held = {"x": x, "y": y, "button": "left", "clickCount": 1}
        events = (
            {"type": "mouseMoved", "x": x, "y": y},
            {"type": "mousePressed", "buttons": 1, **held},
            {"type": "mouseReleased", **held},
        )
        await asyncio.gather(*(self._protocol.send("Input.dispatchMouseEvent", event) for event in events))

    async def look(self, *, screenshot: bool = True) -> None:
        """Run the pass, then take the screenshot; a frame is rendered first if frames are controlled."""
        if self._time is None:
            await self.seen()
        if screenshot:
            await self.screenshot()
        elif self._time is not None:
            await self._time.pass_by(FRAME)
        if self._time is not None:
            await self.seen()

    async def close(self) -> None:
        """Close the browser context."""
        await self._context.close()


class RawMiniWob:
    """A MiniWoB++ task on a raw page, created by `RawMiniWob.open`."""

    def __init__(self, raw: RawPage, task: MiniWobTask) -> None:
        self.raw = raw
        self._task = task

    @classmethod
    async def open(cls, base_url: str, name: str, *, held: bool = False) -> RawMiniWob:
        """Load a task's page below `base_url` (with a trailing slash) and start an episode.

        `held` is an option of `RawPage.open`.
        """
        task = MiniWobTask(name)
        task.start_url = f"{base_url}{name}.html"
        self = cls(await RawPage.open(task.viewport, held=held), task)
        await self.restart(0)
        await self.raw.install()
        return self

    async def restart(self, seed: int) -> None:
        """Start an episode in the page."""
        await self._task.setup(self.raw.page, np.random.default_rng(seed))

    async def reset(self, seed: int) -> None:
        """Start an episode, and observe the page."""
        await self.restart(seed)
        await self.raw.look()

    async def click(self, box: tuple[float, float, float, float], *, screenshot: bool = True) -> None:
        """Click the centre of a box (x, y, width, height), and observe the page."""
        x, y, width, height = box
        await self.raw.press(x + width / 2, y + height / 2)
        await self.raw.look(screenshot=screenshot)
