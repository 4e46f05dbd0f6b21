"""The in-page script of a frame: its installation in an isolated world, and its calls.

The world shares the frame's DOM with the page but none of its JavaScript: the script doesn't use the page's `Element`
or `JSON`. The page can't find, read or change the script.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from selfsurf.browser_env.errors import PAGE_CRASHED, EnvError, ScriptError
from selfsurf.browser_env.text import well_formed_json

if TYPE_CHECKING:
    from selfsurf.browser_env.browser.devtools import ProtocolSession

_PARTS = (
    "dom",
    "common",
    "roles",
    "names",
    "shapes",
    "written",
    "covers",
    "rules",
    "observe",
    "branches",
    "act",
    "readback",
    "press",
    "settle",
    "loading",
)
_METHODS = (
    "observe", "look", "edition", "review", "settle", "loaded", "firstSign", "popupCame", "picturesCame", "node", "has",
    "forget", "takeSuspects", "adopt", "locate", "domClick", "domHover", "prepareFill", "prepareType", "select",
    "optionIn", "turnList", "focus", "scroll", "fileInput", "draws", "clearFiles", "written", "paste", "insertLines",
    "scrolledTo", "saysLoading", "idAt", "holder", "pointInHolder", "holderAt", "showFrame", "missed", "hearKey",
    "keptKey", "overHolder", "reacts", "signs", "stilled", "unmark", "prepareFocused", "keysGo", "checkLater",
    "notChosen", "described", "heedDrag", "framed", "pageText", "replaced", "withIds", "opened",
    "timersRan",
)  # fmt: skip
_BY_REFERENCE = frozenset({"node", "holder", "takeSuspects"})
_PROMISED = frozenset(
    {"settle", "look", "loaded", "firstSign", "popupCame", "picturesCame", "opened", "stilled", "framed", "timersRan"}
)

_REPLACED = (
    "Cannot find context", "Cannot find default execution context", "Could not find object", "Cannot find object",
    "Execution context was destroyed", "Inspected target navigated", "uniqueContextId not found",
    "JSHandle is disposed", "Frame was detached", "context with specified id", "Not attached to an active page",
    "No frame for given id", "No frame with given id", "Argument should belong to the same JavaScript world",
    "Promise was collected", "Unable to capture screenshot",
)  # fmt: skip

_ATTEMPTS = 4

_BLANK = re.compile(r"^[ \t]*(?://.*)?", re.MULTILINE)

WORLD = "selfsurf"
"""Name of the in-page script's isolated world."""

PROBE = f"p{secrets.token_hex(8)}"  # for pages of this process
"""Name of the event by which the in-page script asks the page's main world whether an element has click listeners."""


@cache
def read_script(name: str) -> str:
    """Return the source of `page/{name}.js` without indentation and comment lines, since every document parses it.

    No string in the file may span several lines.
    """
    source = resources.files("selfsurf.browser_env").joinpath("page", f"{name}.js").read_text(encoding="utf8")
    return _BLANK.sub("", source)


def with_dom(function: str) -> str:
    """Wrap a standalone function so that it can use the DOM access of `page/dom.js`."""
    return f"function (...all) {{\n{read_script('dom')}\nreturn ({function}).apply(this, all);\n}}"


@cache
def script_source(extra: str = "", probe: str = PROBE) -> str:
    """Return the source of the in-page script, an expression assembled from the files in `page/`.

    The expression evaluates to an object whose methods `PageScript.call` calls. There is one object per document;
    same-origin frames and shadow roots are walked from their top document. The script never modifies the page, except
    for stamps on request and for actions.

    Args:
        extra: additional source, run where all of the script's functions can be called.
        probe: event name, as in `install_listeners`.
    """
    parts = "\n".join(map(read_script, _PARTS))
    return f"((probe) => {{\n{parts}\n{extra}\nreturn {{{', '.join(_METHODS)}}};\n}})('{probe}')"


def document_was_replaced(error: Exception) -> bool:
    """Whether a call failed because the document was replaced meanwhile, so that a new one exists or will exist."""
    return any(text in str(error) for text in _REPLACED)


async def install_listeners(protocol: ProtocolSession, probe: str = PROBE, *, transitions: bool = True) -> None:
    """Install scripts that report listeners and presses before the scripts of a target's documents run.

    Args:
        protocol: the target's session.
        probe: event name by which the script asks; pages opened by another process have its name.
        transitions: whether documents may have view transitions; otherwise the transitions are skipped.
    """
    parts = ["listener_probe", "timers", *(() if transitions else ("view_transitions",))]
    source = ";\n".join(read_script(part) for part in parts).replace("PROBE", probe)
    await asyncio.gather(
        protocol.send(
            "Page.addScriptToEvaluateOnNewDocument",
            {"source": source, "includeCommandLineAPI": True, "runImmediately": True},
        ),
        protocol.send(
            "Page.addScriptToEvaluateOnNewDocument",
            {
                "source": read_script("press_listener").replace("PROBE", probe),
                "worldName": WORLD,
                "runImmediately": True,
            },
        ),
    )


@dataclass(eq=False)
class PageScript:
    """The script in one frame."""

    protocol: ProtocolSession
    """Session of the frame's target."""
    frame_id: str
    wait: Callable[[float], Awaitable[None]]
    """Function that waits for the next document, for at most the given number of seconds."""
    crashed: Callable[[], bool]
    """Function that returns whether the page has crashed."""
    extra: str
    """Additional source for the script (`script_source`)."""
    probe: str
    """Name of the event that asks for listeners (`install_listeners`)."""
    frames: dict[int, str] = field(default_factory=dict)
    """Ids of the frames that the script can't access, by their number in the script."""
    _context: int | None = None
    _script: str | None = None

    @property
    def handle(self) -> str | None:
        """Handle of the document's script; None before the script is installed."""
        return self._script

    async def call(self, method: str, **arguments: Any) -> Any:
        """Call a method of the script, installing it first if needed.

        Raises:
            EnvError: the page crashed.
            ScriptError: the script threw.
        """
        for attempt in range(_ATTEMPTS):
            if self.crashed():
                raise EnvError(PAGE_CRASHED)
            try:
                if self._script is None:
                    await self._install()
                answer = await self.protocol.send(
                    "Runtime.callFunctionOn",
                    {
                        "objectId": self._script,
                        "functionDeclaration": f"function(a){{return this.{method}(a)}}",
                        "arguments": [{"value": arguments}],
                        "returnByValue": method not in _BY_REFERENCE,
                        "awaitPromise": method in _PROMISED,
                    },
                )
            except Exception as error:
                if self.crashed():
                    raise EnvError(PAGE_CRASHED) from error
                if attempt == _ATTEMPTS - 1 or not document_was_replaced(error):
                    raise
                self._script = None
                await self.wait(0.1 * attempt)
                continue
            if "exceptionDetails" in answer:
                raise ScriptError(f"The in-page script failed in {arguments.get('name', method)}: {thrown(answer)}")
            return answer["result"] if method in _BY_REFERENCE else answer["result"].get("value")
        raise AssertionError("unreachable")

    async def _install(self) -> None:
        world = await self.protocol.send(
            "Page.createIsolatedWorld",
            {"frameId": self.frame_id, "worldName": WORLD, "grantUniveralAccess": False},
        )
        answer = await self.protocol.send(
            "Runtime.evaluate",
            {
                "expression": script_source(self.extra, self.probe),
                "contextId": world["executionContextId"],
                "objectGroup": "selfsurf",
            },
        )
        if "exceptionDetails" in answer:
            raise EnvError(f"The in-page script failed to start: {thrown(answer)}")
        self._context = world["executionContextId"]
        self._script = str(answer["result"]["objectId"])
        self.frames.clear()

    async def observe(self, method: str = "observe", **arguments: Any) -> dict[str, Any]:
        """Run the observation pass (`look` settles first), and run it again if it found closed shadow roots."""
        raw: dict[str, Any] = json.loads(well_formed_json(await self.call(method, **arguments)))
        if raw["suspects"] and await self._open_roots():
            what = arguments.get("what", arguments)
            again = json.loads(well_formed_json(await self.call("observe", **what)))
            raw.update(with_told(again, raw))
        return raw

    async def focus(self) -> dict[str, Any]:
        """Return the `origin` of the document that receives keys, or the number of the focused foreign `frame`."""
        found: dict[str, Any] = await self.call("keysGo")
        while await self._open_roots():
            found = await self.call("keysGo")
        return found

    async def _open_roots(self) -> bool:
        """Give the script the closed shadow roots of elements that may have one; return whether there were any."""
        found = False
        with contextlib.suppress(Exception):  # the document may go away meanwhile; the next pass asks again
            hosts = (await self.call("takeSuspects"))["objectId"]
            listed = await self.protocol.send("Runtime.getProperties", {"objectId": hosts, "ownProperties": True})
            items = [one["value"]["objectId"] for one in listed["result"] if one["name"].isdigit()]
            nodes = await asyncio.gather(
                *(self.protocol.send("DOM.describeNode", {"objectId": item}) for item in items)
            )
            for item, node in zip(items, nodes, strict=True):
                for root in node["node"].get("shadowRoots", ()):
                    if root.get("shadowRootType") == "closed":
                        await self._adopt(item, root["backendNodeId"])
                        found = True
            await self.protocol.send("Runtime.releaseObject", {"objectId": hosts})
        return found

    async def _adopt(self, host: str, backend_id: int) -> None:
        root = await self.protocol.send(
            "DOM.resolveNode", {"backendNodeId": backend_id, "executionContextId": self._context}
        )
        await self.protocol.send(
            "Runtime.callFunctionOn",
            {
                "objectId": self._script,
                "functionDeclaration": "function(host, root){this.adopt(host, root)}",
                "arguments": [{"objectId": host}, {"objectId": root["object"]["objectId"]}],
            },
        )

    async def frame_of(self, index: int) -> str | None:
        """Return the id of frame number `index` in the script; None if the frame is gone."""
        if index not in self.frames:
            element = await self.call("holder", index=index)
            if "objectId" not in element:
                return None
            node = await self.protocol.send("DOM.describeNode", {"objectId": element["objectId"]})
            if "frameId" not in node["node"]:
                return None
            self.frames[index] = node["node"]["frameId"]
        return self.frames[index]


def with_told(raw: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """Return a pass with the reports of the previous pass added, since the script reports each only once."""
    if not before:
        return raw
    return {**raw, "readBack": raw["readBack"] or before["readBack"], "refused": before["refused"] + raw["refused"]}


def thrown(answer: dict[str, Any]) -> str:
    """Return the first line of the error in an evaluation's answer with `exceptionDetails`."""
    details = answer["exceptionDetails"]
    text = details.get("exception", {}).get("description") or details.get("text", "")
    return str(text).strip().splitlines()[0] if text else "no details"
