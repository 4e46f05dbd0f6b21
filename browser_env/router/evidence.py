"""Evidence of a page after an attempt: a screenshot, and on failure the accessibility tree and the relevant DOM.

Everything is limited in time and size, with a note of each part left out. Text typed into fields is never part of it:
screenshots have fields painted over, tree and DOM lack their values. Independent of logs.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from selfsurf.browser_env.attempts.attempt import Evidence
from selfsurf.browser_env.browser.page_script import read_script, with_dom
from selfsurf.browser_env.errors import reason
from selfsurf.browser_env.observe.masking import Box, mask
from selfsurf.browser_env.safety.lines import calls

if TYPE_CHECKING:
    from selfsurf.browser_env.browser.devtools import ProtocolSession

SECONDS = 2.0
"""Time limit in seconds for all evidence of an attempt: trees of large pages would take 9 s."""

MOST_BYTES = 5_000_000
"""Size limit in bytes for all evidence of an attempt: trees of large pages would have 38 MB."""

DOM_BYTES = 500_000
"""Size limit of the DOM in bytes."""

WHOLE_TREE = 4_000
"""Maximum number of elements of a page whose tree is fetched in one call, which can't be interrupted. The tree of a
larger page is fetched level by level until the time limit."""

MOST_ELEMENTS = 30_000
"""Maximum number of elements of a page whose tree is fetched at all. Above this the browser takes seconds for the first
answer about the tree."""

LOOKS = 3
"""Attempts at a screenshot of a moving page. A screenshot is kept only if the boxes to paint over did not move."""

_EDITABLE = frozenset({"textbox", "searchbox", "combobox", "spinbutton", "PasswordField", "DateTime", "Date"})


@dataclass
class Sight:
    """Access to a provider's page for collecting evidence."""

    protocol: ProtocolSession
    """DevTools session of the page."""
    shoot: Callable[[], Awaitable[bytes]]
    """Function that takes a screenshot of the viewport as PNG."""
    boxes: Callable[[], Awaitable[list[Box]]]
    """Function that finds the boxes to paint over in a screenshot."""
    nodes: Sequence[int] = ()
    """Relevant elements, as backend node IDs of the DevTools protocol."""
    cut: list[str] = field(default_factory=list)
    values: list[str] = field(default_factory=list)
    """Values of the page's form fields, to be masked."""


async def collect(sight: Sight, *, url: str, failed: bool, screenshot: bool) -> Evidence:
    """Collect evidence within `SECONDS` and `MOST_BYTES`. Doesn't raise."""
    until = time.monotonic() + SECONDS
    png = await _within(until, "picture", sight, _picture(sight)) if screenshot else None
    tree = dom = None
    if failed:
        dom = await _within(until, "DOM", sight, _around(sight))
        room = MOST_BYTES - DOM_BYTES - len(png or b"")
        tree = await _within(until, "accessibility tree", sight, _tree(sight, until, room))
    return Evidence(url, png, tree, dom, tuple(sight.cut), values=tuple(sight.values))


async def _within(until: float, what: str, sight: Sight, work: Awaitable[Any]) -> Any:
    left = until - time.monotonic()
    try:
        async with asyncio.timeout(max(0.0, left)):
            return await work
    except TimeoutError:
        sight.cut.append(f"The {what} was left out: it was not available within {SECONDS:g} s.")
    except Exception as error:
        sight.cut.append(f"The {what} was left out: {reason(error)}")
    return None


async def _picture(sight: Sight) -> bytes | None:
    for _ in range(LOOKS):
        before = await sight.boxes()
        png = await sight.shoot()
        if before == await sight.boxes():
            break
    else:
        sight.cut.append("The picture was left out: the page moved while it was taken.")
        return None
    if before:
        size = await _evaluate(sight.protocol, "[innerWidth, innerHeight]")
        png = await asyncio.to_thread(_painted, png, before, size[0])
    if len(png) > MOST_BYTES - DOM_BYTES:
        sight.cut.append(f"The picture was left out: its size is {len(png) / 1e6:.1f} MB.")
        return None
    return png


def _painted(png: bytes, boxes: Sequence[Box], width: float) -> bytes:
    """Return a screenshot with boxes painted over. `width` is that of the viewport in the pixels of the boxes."""
    import io

    import numpy as np
    from PIL import Image

    image = Image.open(io.BytesIO(png)).convert("RGB")
    scale = image.width / width
    scaled = [(x * scale, y * scale, w * scale, h * scale) for x, y, w, h in boxes]
    out = io.BytesIO()
    Image.fromarray(mask(np.asarray(image), scaled)).save(out, "PNG", compress_level=1)
    return out.getvalue()


async def _around(sight: Sight) -> Any:
    """Return the DOM around the given nodes, or around the focused element if none is given or left."""
    function, found = with_dom(read_script("around")), []
    for node in sight.nodes:
        try:
            resolved = await sight.protocol.send("DOM.resolveNode", {"backendNodeId": node})
            answer = await sight.protocol.send(
                "Runtime.callFunctionOn",
                {
                    "objectId": resolved["object"]["objectId"],
                    "functionDeclaration": f"function () {{ return ({function})(this) }}",
                    "returnByValue": True,
                },
            )
            found.append(answer["result"]["value"])
        except Exception:  # the element is no longer on the page
            sight.cut.append("The DOM around an element was left out: it is no longer on the page.")
    if not found:
        found.append(await _evaluate(sight.protocol, f"({function})()"))
    kept = [one for one in found if one is not None]
    while kept and len(json.dumps(kept)) > DOM_BYTES:
        kept.pop()
        sight.cut.append(f"The DOM around an element was left out: more than {DOM_BYTES / 1e6:g} MB.")
    return kept


async def _tree(sight: Sight, until: float, room: int) -> Any:
    protocol = sight.protocol
    elements = await _evaluate(protocol, "document.getElementsByTagName('*').length")
    if elements > MOST_ELEMENTS:
        sight.cut.append(f"The accessibility tree was left out: the page has {elements} elements.")
        return None
    if elements <= WHOLE_TREE:
        frames = _frames((await protocol.send("Page.getFrameTree"))["frameTree"])
        answers = await asyncio.gather(
            *(protocol.send("Accessibility.getFullAXTree", {"frameId": frame}) for frame in frames),
            return_exceptions=True,
        )
        if isinstance(answers[0], BaseException):
            raise answers[0]
        nodes = [node for answer in answers if not isinstance(answer, BaseException) for node in answer["nodes"]]
    else:
        nodes = await _by_levels(sight, until)
    sight.values += _field_values(nodes)
    return _nested(nodes, room, sight.cut)


async def _by_levels(sight: Sight, until: float) -> list[dict[str, Any]]:
    """Fetch the accessibility tree level by level from its root, as far as time allows."""
    protocol, spare = sight.protocol, 0.3
    await protocol.send("Accessibility.enable")
    try:
        level = [(await protocol.send("Accessibility.getRootAXNode"))["node"]]
        nodes = list(level)
        waiting = [node["nodeId"] for node in level if node.get("childIds")]
        while waiting:
            if time.monotonic() > until - spare:
                sight.cut.append(f"The accessibility tree was cut after {len(nodes)} nodes, when time was up.")
                break
            batch, waiting = waiting[:64], waiting[64:]
            answers = await asyncio.gather(
                *(protocol.send("Accessibility.getChildAXNodes", {"id": id}) for id in batch), return_exceptions=True
            )
            for answer in answers:
                if not isinstance(answer, BaseException):
                    nodes += answer["nodes"]
                    waiting += [node["nodeId"] for node in answer["nodes"] if node.get("childIds")]
        return nodes
    finally:
        await protocol.send("Accessibility.disable")


def _field_values(nodes: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the text entered into the fields of a tree, except passwords, which consist of dots there."""
    for node in nodes:
        role, value = node.get("role", {}).get("value", ""), node.get("value", {}).get("value")
        typed = role in _EDITABLE - {"combobox"} or any(one["name"] == "editable" for one in node.get("properties", ()))
        if typed and isinstance(value, str) and value.strip("\u2022 "):
            yield value


def _nested(nodes: Sequence[dict[str, Any]], room: int, cut: list[str]) -> list[dict[str, Any]]:
    """Nest a tree's nodes as plain data. If there is no room for all of them, the lowest levels are left out."""
    by_id = {node["nodeId"]: node for node in nodes}
    tops = [node for node in nodes if node.get("parentId") not in by_id]
    out: list[dict[str, Any]] = []
    todo = [(node, out) for node in tops]
    size = kept = 0
    for node, place in todo:  # breadth-first: the loop appends to the list
        plain, below = _plain(node), place
        if plain is not None:
            size += len(json.dumps(plain)) + 16
            if size > room:
                cut.append(
                    f"The accessibility tree was cut: {kept} of {len(nodes)} nodes fit into {room / 1e6:.1f} MB."
                )
                break
            place.append(plain)
            kept += 1
            if plain["role"] in _EDITABLE or "editable" in plain.get("states", ()):
                continue  # the children contain the typed text
            below = plain.setdefault("children", [])
        todo += [(by_id[child], below) for child in node.get("childIds", ()) if child in by_id]
    return out


def _plain(node: dict[str, Any]) -> dict[str, Any] | None:
    """Return a node's relevant properties; None if assistive technology ignores the node."""
    role = node.get("role", {}).get("value", "")
    if node.get("ignored") or role == "InlineTextBox":
        return None
    plain: dict[str, Any] = {"role": role}
    for key in ("name", "description"):
        if text := node.get(key, {}).get("value"):
            plain[key] = text
    values = {each["name"]: each.get("value", {}).get("value") for each in node.get("properties", ())}
    if calls(values):
        plain["url"] = values["url"]
    states = [name for name, value in values.items() if value not in (False, None, "", "false")]
    if states:
        plain["states"] = states
    if "value" in node and role not in _EDITABLE and "editable" not in states:
        plain["value"] = node["value"].get("value")
    if "backendDOMNodeId" in node:
        plain["node"] = node["backendDOMNodeId"]
    return plain


def _frames(branch: dict[str, Any]) -> list[str]:
    return [branch["frame"]["id"], *(id for child in branch.get("childFrames", ()) for id in _frames(child))]


async def _evaluate(protocol: ProtocolSession, expression: str) -> Any:
    answer = await protocol.send("Runtime.evaluate", {"expression": expression, "returnByValue": True})
    if "exceptionDetails" in answer:
        raise RuntimeError(answer["exceptionDetails"].get("text", "the page's script failed"))
    return answer["result"].get("value")
