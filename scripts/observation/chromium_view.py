"""Chromium's own view of an environment's page, as `fidelity.Node`s.

Layout, attributes and shadow trees come from one `DOMSnapshot` per process, roles and names from
`Accessibility.getFullAXTree` of each frame, listeners from `DOMDebugger`. Collecting takes seconds on long pages and is
deliberately independent of the observation's own pass.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from selfsurf.browser_env.browser.runtime import runtime
from selfsurf.browser_env.environment.core import EnvCore
from selfsurf.scripts.observation.fidelity import CONTROLS, Box, Node, can_be_acted_on, is_interactive

STAMP = "data-agent-id"

LISTENED = frozenset({
    "click", "dblclick", "mousedown", "mouseup", "pointerdown", "pointerup", "touchstart", "touchend", "dragstart",
    "contextmenu",
})  # fmt: skip
"""Events whose listeners show that acting on an element has an effect."""

CELLS = frozenset({"gridcell", "columnheader", "rowheader"})
CELL_SAYS = frozenset({"aria-selected", "aria-sort", "data-date", "data-day", "data-time", "data-value"})
"""Attributes by which a grid cell identifies itself to a listener on an ancestor."""

STYLES = ("cursor", "visibility", "overflow-x")


def collect(core: EnvCore) -> list[Node]:
    """Collect the elements of the active tab, including every frame and shadow tree."""
    return runtime().run(_nodes(core), timeout=300)


async def _nodes(core: EnvCore) -> list[Node]:
    """Return the elements of all processes of the tab, each of which has a protocol session of its own."""
    assert core.session is not None
    tab = core.session.active
    out = await _process(0, tab.protocol, None)
    for number, frame in enumerate(tab.page.frames[1:], 1):
        try:
            session = await tab.page.context.new_cdp_session(frame)
        except Exception as error:
            if "does not have a separate CDP session" not in str(error):
                raise
            continue
        out += await _process(number, session, frame)
        await session.detach()
    return out


async def _process(number: int, session: Any, frame: Any) -> list[Node]:
    """Return the elements of one process; `frame` is its Playwright frame, None for the tab's own."""
    holder = frame and await (await frame.frame_element()).bounding_box()
    offset = (holder["x"], holder["y"]) if holder else (0.0, 0.0)
    known = await _accessible(session)
    snapshot = await session.send("DOMSnapshot.captureSnapshot", {"computedStyles": list(STYLES)})
    modal = await _modal_dialog(session)
    documents = [_Document(snapshot, index) for index in range(len(snapshot["documents"]))]
    documents[0].place(offset, documents, "foreign" if frame is not None else "", False)
    nodes = [node for document in documents for node in document.nodes(number, known, modal)]
    return [await _looked_up(session, node) for node in nodes]


async def _looked_up(session: Any, node: Node) -> Node:
    """Add facts that the snapshot lacks to a node that the observation lists but the judge finds non-interactive."""
    if not node.stamp or is_interactive(node):
        return node
    thing = (await session.send("DOM.resolveNode", {"backendNodeId": node.key[1]}))["object"]["objectId"]
    shown = await _evaluated(session, thing, "this.checkVisibility()")
    node = dataclasses.replace(node, shown=bool(shown.get("value")))
    if can_be_acted_on(node, ()):
        return node
    clickable = (node.tag in CONTROLS and "disabled" not in node.attributes) or await _listens(session, thing)
    if node.tag == "li" and not clickable:  # a list may have the listener for its items
        around = await _evaluated(session, thing, "this.parentElement || this")
        clickable = await _listens(session, around["objectId"])
    elif node.role in CELLS and CELL_SAYS & set(node.attributes) and not clickable:
        clickable = await _is_heard(session, thing)
    return dataclasses.replace(node, clickable=clickable)


async def _evaluated(session: Any, thing: str, expression: str) -> Any:
    declaration = f"function() {{ return {expression}; }}"
    call = {"objectId": thing, "functionDeclaration": declaration}
    return (await session.send("Runtime.callFunctionOn", call))["result"]


async def _listens(session: Any, thing: str) -> bool:
    found = await session.send("DOMDebugger.getEventListeners", {"objectId": thing})
    return any(listener["type"] in LISTENED for listener in found["listeners"])


async def _is_heard(session: Any, thing: str) -> bool:
    """Whether any ancestor of a grid cell listens for the cell's events."""
    around = "this.closest('[role=grid], [role=treegrid]') && this.parentNode"
    while "objectId" in (above := await _evaluated(session, thing, around)):
        thing, around = above["objectId"], "this.parentNode || this.host || null"
        if await _listens(session, thing):
            return True
    return False


async def _accessible(session: Any) -> dict[int, dict[str, Any]]:
    """Return the accessibility nodes of one process by backend node id."""
    tree = await session.send("Page.getFrameTree")
    known: dict[int, dict[str, Any]] = {}
    for frame in _frame_ids(tree["frameTree"]):
        try:
            answer = await session.send("Accessibility.getFullAXTree", {"frameId": frame})
        except Exception as error:
            # A frame of another process, which has a session of its own, or one that is not rendered.
            if "Frame with the given" in str(error) or "not found" in str(error):
                continue
            raise
        for node in answer["nodes"]:
            if "backendDOMNodeId" in node and not node["ignored"]:
                known.setdefault(node["backendDOMNodeId"], node)
    return known


def _frame_ids(tree: dict[str, Any]) -> list[str]:
    return [tree["frame"]["id"], *(id for child in tree.get("childFrames", []) for id in _frame_ids(child))]


async def _modal_dialog(session: Any) -> int | None:
    """Return the backend node id of the top modal dialog, outside of which everything is inert; None without one."""
    expression = "Array.from(document.querySelectorAll('dialog:modal')).pop()"
    found = (await session.send("Runtime.evaluate", {"expression": expression}))["result"]
    if "objectId" not in found:
        return None
    described = await session.send("DOM.describeNode", {"objectId": found["objectId"]})
    return int(described["node"]["backendNodeId"])


class _Document:
    """A document of a snapshot."""

    def __init__(self, snapshot: dict[str, Any], index: int) -> None:
        raw = snapshot["documents"][index]
        self.strings: list[str] = snapshot["strings"]
        self.raw = raw["nodes"]
        self.scroll = (raw.get("scrollOffsetX", 0), raw.get("scrollOffsetY", 0))
        self.offset = (0.0, 0.0)
        self.empty = False
        """Whether the document is in a frame without an area."""
        self.where = ""
        self.parents: list[int] = self.raw["parentIndex"]
        self.frames = _rare(self.raw["contentDocumentIndex"])
        self.clickable = set(self.raw["isClickable"]["index"])
        self.roots = _rare(self.raw["shadowRootType"])
        layout = raw["layout"]
        self.bounds: dict[int, Box] = {}
        self.styles: dict[int, list[int]] = {}
        for node, bounds, styles in zip(layout["nodeIndex"], layout["bounds"], layout["styles"], strict=True):
            self.bounds.setdefault(node, tuple(bounds))
            self.styles.setdefault(node, styles)
        self.attributes = [self._pairs(values) for values in self.raw["attributes"]]
        self.tags = [self.strings[name].lower() if name >= 0 else "" for name in self.raw["nodeName"]]
        self.children: dict[int, list[int]] = {}
        for node, parent in enumerate(self.parents):
            self.children.setdefault(parent, []).append(node)
        self.labels = {
            (self._tree(node), self.attributes[node]["for"]): node
            for node, tag in enumerate(self.tags)
            if tag == "label" and self.attributes[node].get("for") and self.bounds.get(node)
        }
        """Label nodes by their tree and the id that they refer to."""
        self.images = {
            (attributes.get("usemap") or "#")[1:]: node
            for node, attributes in enumerate(self.attributes)
            if "usemap" in attributes
        }
        """Image nodes by the name of the map that they use."""

    def _pairs(self, values: list[int]) -> dict[str, str]:
        texts = [self.strings[value] if value >= 0 else "" for value in values]
        return dict(zip(texts[::2], texts[1::2], strict=True))

    def place(self, offset: tuple[float, float], documents: list[_Document], where: str, empty: bool) -> None:
        """Set the positions of this document and its frames, in coordinates of the top frame's viewport."""
        self.offset = (offset[0] - self.scroll[0], offset[1] - self.scroll[1])
        self.where, self.empty = where, empty
        for holder, index in self.frames.items():
            x, y = (self.bounds.get(holder) or (0.0, 0.0, 0.0, 0.0))[:2]
            inside = (self.offset[0] + x, self.offset[1] + y)
            documents[index].place(inside, documents, where or "frame", empty or self._area(holder) is None)

    def nodes(self, session: int, known: dict[int, dict[str, Any]], modal: int | None) -> list[Node]:
        """Return the elements that have an accessibility node or a stamp."""
        return [
            self._node(node, (session, backend), known, modal)
            for node, (kind, backend) in enumerate(zip(self.raw["nodeType"], self.raw["backendNodeId"], strict=True))
            if kind == 1 and (backend in known or STAMP in self.attributes[node])
        ]

    def _node(self, node: int, key: tuple[int, int], all_known: dict[int, dict[str, Any]], modal: int | None) -> Node:
        attributes, tag = self.attributes[node], self.tags[node]
        above = self._above(node)
        ancestors = [self.attributes[one] for one in above]
        accessible, host = all_known.get(key[1]), self._tree(node)
        known = accessible or {}
        properties = {one["name"]: one["value"].get("value") for one in known.get("properties", [])}
        role, name = known.get("role", {}), (known.get("name") or {}).get("value")
        style = self._style(node)
        inert = any("inert" in each for each in [attributes, *ancestors])
        if modal is not None and not self.where:
            inert = inert or modal not in [self.raw["backendNodeId"][one] for one in [node, *above]]
        return Node(
            key=key,
            tag=tag,
            attributes={name: value for name, value in attributes.items() if name != STAMP},
            html=self._html(node),
            path=" > ".join(self._short(one) for one in reversed(above[:3])),
            box=self._box(node) if style.get("visibility", "visible") == "visible" else None,
            role=str(role.get("value", "")),
            own_role=role.get("type") == "internalRole",
            name=str(name or ""),
            host_name=self._name_of_host(host, all_known),
            text=self._text(node, 400) if accessible and not name else "",
            ignored=accessible is None,
            focusable=bool(properties.get("focusable")),
            editable="editable" in properties and self._is_editing_host(node, above),
            inert=inert,
            clickable=node in self.clickable or (tag == "li" and bool(above) and above[0] in self.clickable),
            pointer=style.get("cursor") == "pointer",
            labels=any(self.tags[one] == "label" for one in [node, *above]),
            in_select=any(self.tags[one] == "select" for one in above),
            where=self._where(node, above),
            stamp=attributes.get(STAMP, ""),
        )

    def _name_of_host(self, host: int, known: dict[int, dict[str, Any]]) -> str:
        if host < 0 or "-" not in self.tags[host]:
            return ""
        name = known.get(self.raw["backendNodeId"][host], {}).get("name") or {}
        return str(name.get("value") or "")

    def _is_editing_host(self, node: int, above: list[int]) -> bool:
        def edits(one: int) -> bool:
            return self.attributes[one].get("contenteditable", "false").lower() != "false"

        # In a document that is editable as a whole, the body receives the text.
        return edits(node) or (self.tags[node] == "body" and not any(edits(one) for one in above))

    def _above(self, node: int) -> list[int]:
        """Return the ancestor elements of a node, the nearest first."""
        out = []
        while (node := self.parents[node]) >= 0:
            if self.raw["nodeType"][node] == 1:
                out.append(node)
        return out

    def _where(self, node: int, above: list[int]) -> str:
        kinds = {self.strings[self.roots[one]] for one in [node, *above] if one in self.roots}
        return "closed" if "closed" in kinds else self.where or ("shadow" if "open" in kinds else "")

    def _style(self, node: int) -> dict[str, str]:
        values = self.styles.get(node, [])
        return dict(zip(STYLES, (self.strings[value] for value in values), strict=False))

    def _tree(self, node: int) -> int:
        """Return the host of the shadow tree that contains a node; -1 for the document."""
        while node >= 0 and node not in self.roots:
            node = self.parents[node]
        return self.parents[node] if node >= 0 else -1

    def _box(self, node: int) -> Box | None:
        """Return the box of an element, or of its substitute, in coordinates of the top frame's viewport."""
        if self.empty:
            return None
        clips = self.bounds.get(node) is not None and self._style(node).get("overflow-x", "visible") != "visible"
        box = self._area(node) or (None if clips else self._content(node))
        if box is None and self.tags[node] == "area":
            holder = next((one for one in self._above(node) if self.tags[one] == "map"), node)
            image = self.images.get(self.attributes[holder].get("name", "") or self.attributes[holder].get("id", ""))
            box = self._area(image) if image is not None else None
        if box is None and self.tags[node] in ("input", "select", "textarea", "button"):
            around = [one for one in self._above(node) if self.tags[one] == "label"]
            label = self.labels.get((self._tree(node), self.attributes[node].get("id", "")))
            for one in [*around[:1], *([label] if label is not None else [])]:
                box = box or self._area(one)
        return None if box is None else (box[0] + self.offset[0], box[1] + self.offset[1], box[2], box[3])

    def _area(self, node: int) -> Box | None:
        box = self.bounds.get(node)
        return box if box is not None and box[2] > 0 and box[3] > 0 else None

    def _content(self, node: int) -> Box | None:
        """Return the bounding box of an element's descendants that have an area."""
        boxes: list[Box] = []
        waiting = list(self.children.get(node, []))
        while waiting and len(boxes) < 100:
            one = waiting.pop()
            area = self._area(one)
            if area is not None and self._style(one).get("visibility", "visible") == "visible":
                boxes.append(area)
            else:
                waiting += self.children.get(one, [])
        if not boxes:
            return None
        left, top = min(box[0] for box in boxes), min(box[1] for box in boxes)
        right, bottom = max(box[0] + box[2] for box in boxes), max(box[1] + box[3] for box in boxes)
        return left, top, right - left, bottom - top

    def _short(self, node: int) -> str:
        attributes = self.attributes[node]
        id = f"#{attributes['id']}" if attributes.get("id") else ""
        return self.tags[node] + id + "".join(f".{name}" for name in attributes.get("class", "").split()[:2])

    def _html(self, node: int) -> str:
        attributes = "".join(
            f' {name}="{value[:60]}"' if value else f" {name}"
            for name, value in self.attributes[node].items()
            if name not in (STAMP, "d", "style")
        )
        text = " ".join(self._text(node).split())
        return f"<{self.tags[node]}{attributes[:240]}>{text[:60]}"

    def _text(self, node: int, left: int = 200) -> str:
        out = ""
        for child in self.children.get(node, []):
            if len(out) > left:
                break
            value = self.raw["nodeValue"][child]
            if self.raw["nodeType"][child] == 3 and value >= 0:
                out += self.strings[value]
            elif self.tags[child] not in ("script", "style"):
                out += self._text(child, left - len(out))
        return out


def _rare(data: dict[str, list[int]]) -> dict[int, int]:
    return dict(zip(data["index"], data["value"], strict=True))
