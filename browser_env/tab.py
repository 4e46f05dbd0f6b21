"""One open tab: its page, its protocol session, the in-page script, and what is still going on in it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from browser_env.errors import EnvError

if TYPE_CHECKING:
    from playwright.async_api import CDPSession, Frame, JSHandle, Page, Request

_WATCHED = frozenset({"document", "script", "stylesheet", "xhr", "fetch"})
"""Request types that settling waits for; pictures, media and open-ended streams are not worth it."""

_PARTS = ("common", "names", "observe", "act", "settle")
_METHODS = (
    "observe", "locate", "domClick", "prepareFill", "select", "focus", "scroll", "settle", "node", "forget",
)  # fmt: skip

_GONE = (
    "Cannot find context", "Could not find object", "Cannot find object", "Execution context was destroyed",
    "Inspected target navigated", "uniqueContextId not found", "JSHandle is disposed", "Frame was detached",
    "context with specified id", "Not attached to an active page",
    "Argument should belong to the same JavaScript world",
)  # fmt: skip


@cache
def page_script() -> str:
    """Return the source of the in-page script: a function expression, made of the files in `page/`.

    It evaluates to an object whose methods this side calls; the page has no name for it. There is one a document;
    same-origin frames and open shadow roots are walked from their top document. It never writes to the page, except
    for stamps on request and what an action asks for.
    """
    folder = resources.files("browser_env").joinpath("page")
    parts = "\n".join(folder.joinpath(f"{part}.js").read_text(encoding="utf8") for part in _PARTS)
    return f"(listenersOf) => {{\n{parts}\nreturn {{{', '.join(_METHODS)}}};\n}}"


def page_went_away(error: Exception) -> bool:
    """Did the call fail because the document was replaced under it? Then a new one is there, or comes."""
    return any(text in str(error) for text in _GONE)


class Tab:
    """A page with everything needed to look at it and act in it. Made by `Tab.open`."""

    def __init__(self, page: Page, protocol: CDPSession) -> None:
        self.page = page
        self.protocol = protocol
        self.crashed = False
        self.clock = 0
        """Counts the loads and requests that have begun; what began later than a reading of it has a higher number."""
        self.changed = asyncio.Event()
        """Set whenever a load or a request ends."""
        self._loads: dict[str, int] = {}
        self._requests: dict[Request, int] = {}
        self._script: str | None = None
        self._frames: dict[Frame, JSHandle] = {}

    @classmethod
    async def open(cls, page: Page) -> Tab:
        """Attach to a page."""
        tab = cls(page, await page.context.new_cdp_session(page))
        on = tab.protocol.on
        on("Page.frameRequestedNavigation", lambda e: tab._begin(e))
        on("Page.frameStartedLoading", lambda e: tab._begin(e))
        on("Page.frameStoppedLoading", lambda e: tab._end(e))
        on("Page.frameDetached", lambda e: tab._end(e))
        on("Page.navigatedWithinDocument", lambda e: tab._end(e))
        on("Page.downloadWillBegin", lambda e: tab._end(e))
        page.on("request", tab._request)
        page.on("requestfinished", tab._answered)
        page.on("requestfailed", tab._answered)
        page.on("crash", lambda _: tab._crash())
        await tab.protocol.send("Page.enable")
        return tab

    def _begin(self, event: dict[str, Any]) -> None:
        self.clock += 1
        self._loads[event["frameId"]] = self.clock

    def _end(self, event: dict[str, Any]) -> None:
        self._loads.pop(event["frameId"], None)
        self.changed.set()

    def _request(self, request: Request) -> None:
        if request.resource_type in _WATCHED:
            self.clock += 1
            self._requests[request] = self.clock

    def _answered(self, request: Request) -> None:
        self._requests.pop(request, None)
        self.changed.set()

    def _crash(self) -> None:
        self.crashed = True
        self.changed.set()

    def loading(self, since: int) -> bool:
        """Is a navigation or a load under way in any frame that began after the clock showed `since`?"""
        return any(began > since for began in self._loads.values())

    def fetching(self, since: int) -> bool:
        """Is a watched request under way that began after the clock showed `since`?"""
        return any(began > since for began in self._requests.values())

    async def unanswered(self) -> bool:
        """Is a navigation under way whose server has not begun to answer? Chromium holds our calls back meanwhile."""
        for request in [request for request in self._requests if request.resource_type == "document"]:
            try:
                await asyncio.wait_for(request.response(), 0.2)
            except TimeoutError:
                return True
            except Exception:
                continue  # the page is gone, and the request with it
        return False

    async def call(self, method: str, **arguments: Any) -> Any:
        """Call a method of the in-page script in the main frame; the script is installed when it is not there.

        Raises:
            EnvError: the script threw, which is a defect of the script.
        """
        for attempt in range(4):
            if self.crashed:
                raise EnvError("The page crashed.")
            try:
                if self._script is None:
                    self._script = await self._install()
                answer = await self.protocol.send(
                    "Runtime.callFunctionOn",
                    {
                        "objectId": self._script,
                        "functionDeclaration": f"function(a){{return this.{method}(a)}}",
                        "arguments": [{"value": arguments}],
                        "returnByValue": method != "node",
                        "awaitPromise": method == "settle",
                    },
                )
            except Exception as error:
                if attempt == 3 or not page_went_away(error):
                    raise
                self._script = None
                await self._next_change(0.1 * attempt)
                continue
            if "exceptionDetails" in answer:
                raise EnvError(f"The in-page script failed in {method}: {_thrown(answer)}")
            return answer["result"] if method == "node" else answer["result"].get("value")
        raise AssertionError("unreachable")

    async def screenshot(self) -> bytes:
        """Return a PNG of the viewport."""
        for attempt in range(4):
            try:
                answer = await self.protocol.send("Page.captureScreenshot", {"format": "png", "optimizeForSpeed": True})
                return base64.b64decode(answer["data"])
            except Exception as error:
                if attempt == 3 or not page_went_away(error):
                    raise
                await self._next_change(0.1 * (attempt + 1))
        raise AssertionError("unreachable")

    async def _next_change(self, seconds: float) -> None:
        """While one document takes another's place, wait for a load to end, for so long at most."""
        self.changed.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.changed.wait(), seconds)

    async def _install(self) -> str:
        answer = await self.protocol.send(
            "Runtime.evaluate",
            {
                "expression": f"({page_script()})(typeof getEventListeners === 'function' ? getEventListeners : null)",
                "includeCommandLineAPI": True,
                "objectGroup": "selfsurf",
            },
        )
        if "exceptionDetails" in answer:
            raise EnvError(f"The in-page script failed to start: {_thrown(answer)}")
        return str(answer["result"]["objectId"])

    async def call_in_frame(self, frame: Frame, method: str, **arguments: Any) -> Any:
        """Call a method of the in-page script in a frame of another origin."""
        for attempt in range(2):
            try:
                if frame not in self._frames:
                    self._frames[frame] = await frame.evaluate_handle(f"({page_script()})(null)")
                return await self._frames[frame].evaluate(f"(script, a) => script.{method}(a)", arguments)
            except Exception as error:
                self._frames.pop(frame, None)
                if attempt or not page_went_away(error):
                    raise
        raise AssertionError("unreachable")

    async def frame_node(self, frame: Frame, id: int) -> Any:
        """Return a handle on element `id` of another origin's frame, or None."""
        handle = await self._frames[frame].evaluate_handle("(script, a) => script.node(a)", {"id": id})
        return handle.as_element()

    async def observe(self, **arguments: Any) -> dict[str, Any]:
        """Run the observation pass in the main frame."""
        return dict(json.loads(await self.call("observe", **arguments)))

    async def rest_mouse(self) -> None:
        """Take the mouse off the page, so that nothing is hovered over because of an episode that is past."""
        await self.protocol.send("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": -1, "y": -1})

    def forget_frames(self) -> None:
        """Drop the handles of frames that are gone."""
        for frame in [frame for frame in self._frames if frame.is_detached()]:
            del self._frames[frame]


def _thrown(answer: dict[str, Any]) -> str:
    details = answer["exceptionDetails"]
    text = details.get("exception", {}).get("description") or details.get("text", "")
    return str(text).strip().splitlines()[0] if text else "no details"
