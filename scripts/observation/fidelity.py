"""How faithful an observation is, with Chromium's accessibility tree as judge. Pure functions; no browser in here.

`scripts.observation.chromium_view` collects what Chromium knows as `Node`s; this module decides which of them are
interactive, joins them to the observation's elements by the stamp that `stamp_ids=True` writes, and counts.

**What the judge calls interactive.** An element of the page that is not ignored by the accessibility tree, has a box,
and
- has one of the roles in `ACTION_ROLES` (whether it is enabled or not), or
- is focusable by the user: natively, through `tabindex` of 0 or more, or as an editing host.

Left out are
- what is inert, or in a frame without an area;
- `option`s of a `<select>`: they are part of it, and the observation gives them as `options` of its element;
- what browsers build into a control (user-agent shadow trees: the fields and arrows of a date input, the buttons of
  a video): the control stands for them;
- documents and frames: their content is judged by itself. A document that is an editing host does count;
- elements that only scripts can focus (negative `tabindex`, no role of action), and scroll containers, which are
  focusable merely because they scroll;
- SVG and other elements for which Chromium has no accessibility node at all.

**A box** is a layout box with an area, wherever on the page, clipped or transparent or not; for an element whose own
box is empty the box of what it contains (a link around a float) and does not clip, of its label, or of the image that
uses its map.

**Region.** `page`: everything. `viewport`: on both sides only what overlaps the viewport.

**Recall** is the share of judged elements that the observation has as elements of their own; an ancestor or a label
in their place does not count. **Roles** agree when the observation's role is one of `accepted_roles`. **Names** agree
when they are equal after `plain`; a name that the observation ends with an ellipsis agrees when the judge's name
starts with the rest. For a field that Chromium leaves without a name in the shadow tree of a custom element, the name
that it gives to that element is accepted, too: a label names the host. Where Chromium gives no name because the role
takes none (`NAMELESS`, roles of Chromium's own), the element's text is accepted, too. A file input is "Choose File" to
Chromium, and a video "Unable to play media.", which is what the browser writes on it, not its name: no name is
accepted, too. Where the name is nothing but icons, the title is accepted, too. **Agreement** is the share of matched
elements whose role and name both agree.

**A false element** is one of the observation's that is not judged interactive and on which nothing would happen: no
listener for clicks, pointers or drags of its own, no pointer cursor, not focusable, editable or draggable, no native
control, no label of one, and no role of action that the accessibility tree merely hides (`aria-hidden`). Cells of a
grid that say which they are (`aria-selected`, `data-date`) may have that listener anywhere around them. One that is
not rendered (closed details, `content-visibility: hidden`) is false, whatever it listens to. One that is inert counts
as false unless its states say `inert`, `disabled` or `covered`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Region = Literal["page", "viewport"]
Box = tuple[float, float, float, float]
Element = Mapping[str, Any]

RECALL, AGREEMENT, FALSE = 0.99, 0.97, 0.02
"""Targets: at least, at least, at most."""

TARGETS = {"recall": RECALL, "agreement": AGREEMENT, "false_share": FALSE}

ACTION_ROLES = frozenset({
    "button", "link", "textbox", "searchbox", "combobox", "listbox", "checkbox", "radio", "switch", "slider",
    "spinbutton", "tab", "menuitem", "menuitemcheckbox", "menuitemradio", "treeitem", "option",
    "Date", "DateTime", "InputTime", "ColorWell", "DisclosureTriangle", "DisclosureTriangleGrouped",
})  # fmt: skip
"""Chromium's roles (as the protocol writes them) of what is there to be acted on."""

CONTROLS = frozenset({"a", "area", "button", "input", "select", "textarea", "summary", "audio", "video"})

FRAMES = frozenset({"Iframe", "IframePresentational", "PluginObject", "EmbeddedObject"})

ROLES: Mapping[str, frozenset[str]] = {
    role: frozenset(accepted.split())
    for roles, accepted in (
        ("Date", "date month week"),
        ("DateTime", "datetime month week"),
        ("InputTime", "time"),
        ("ColorWell", "color"),
        ("DisclosureTriangle DisclosureTriangleGrouped", "button disclosuretriangle summary"),
        ("image img", "img image graphic"),
        ("SvgRoot", "graphic img image generic"),
        ("Canvas", "canvas img generic"),
        ("none", "generic none presentation"),
        ("gridcell cell", "gridcell cell"),
        ("Details", "group details generic"),
        *((f"doc-{kind}", f"doc-{kind} link") for kind in ("backlink", "biblioref", "glossref", "noteref")),
        ("LabelText", "generic label"),
        ("Legend", "generic legend"),
        ("Figcaption", "generic caption figcaption"),
    )
    for role in roles.split()
}
"""Chromium's roles -> the observation's that say the same. A role not listed is accepted under its own name."""


NAMELESS = frozenset({
    "generic", "none", "paragraph", "strong", "emphasis", "code", "deletion", "insertion", "subscript", "superscript",
    "caption", "definition", "term", "mark", "time", "row", "rowgroup", "list", "listitem", "group",
})  # fmt: skip
"""Roles that the ARIA specification forbids to name, or that take no name from their contents."""

BUILT_IN_NAMES = frozenset({"Choose File", "Choose Files", "No file chosen", "Unable to play media."})


@dataclass(frozen=True)
class Node:
    """An element of the page as Chromium knows it."""

    key: tuple[int, int]
    """Protocol session and backend node id: unique on the page."""
    tag: str
    """Lower-case."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    html: str = ""
    """Start tag and first text, for people."""
    path: str = ""
    """Tag, id and classes of the nearest ancestors, for people."""
    box: Box | None = None
    """x, y, width, height in CSS pixels of the top frame's viewport, of the element or of what stands for it."""
    role: str = ""
    """Chromium's role; empty without an accessibility node."""
    own_role: bool = False
    """The role is Chromium's own, with no counterpart in ARIA."""
    name: str = ""
    host_name: str = ""
    """Chromium's name for the custom element in whose shadow tree it is."""
    text: str = ""
    """All text in it, shown or not; cut after some hundred signs."""
    ignored: bool = True
    focusable: bool = False
    editable: bool = False
    inert: bool = False
    clickable: bool = False
    """Chromium says that it responds to clicks, or that the list does whose item it is; or it is a control, or has
    listeners for clicks, pointers or drags, or is a cell of a grid and they are around it."""
    pointer: bool = False
    """Its cursor is the pointing hand."""
    labels: bool = False
    """It is, or is inside of, a label of a control."""
    in_select: bool = False
    built_in: bool = False
    """Part of a user-agent shadow tree."""
    shown: bool = True
    """Not skipped by `content-visibility: hidden` or in closed details. Looked up only for stamped elements."""
    where: str = ""
    """`closed` inside a closed shadow root, `shadow` in an open one, `frame` and `foreign` in frames; for people."""
    stamp: str = ""
    """What the observation wrote into `data-agent-id`."""


def is_interactive(node: Node) -> bool:
    """Does the judge call this element interactive? See the module's docstring."""
    if node.ignored or node.built_in or node.box is None or node.inert:
        return False
    if node.role in FRAMES or node.tag in ("iframe", "frame"):
        return False
    if node.role == "option" and node.in_select:
        return False
    if node.tag in ("html", "body") or node.role == "RootWebArea":
        return node.editable and node.tag == "body"
    return node.role in ACTION_ROLES or _user_focusable(node)


def _user_focusable(node: Node) -> bool:
    if not node.focusable:
        return False
    index = node.attributes.get("tabindex")
    if index is not None and re.fullmatch(r"\s*[-+]?\d+\s*", index):
        return int(index) >= 0
    if node.tag in CONTROLS:
        return True
    # What remains is focusable as an editing host, or because it scrolls.
    return node.attributes.get("contenteditable", "false").lower() != "false"


def can_be_acted_on(node: Node, states: Sequence[str]) -> bool:
    """Would anything happen if an agent acted on this element, which the judge does not call interactive?"""
    if node.inert:
        return bool({"inert", "disabled", "covered"} & set(states))
    return node.shown and (
        any((node.clickable, node.pointer, node.labels, node.focusable, node.editable))
        or node.attributes.get("draggable", "").lower() == "true"
        or (node.role in ACTION_ROLES and not node.built_in)
        or node.attributes.get("role", "") in ACTION_ROLES
    )


def accepted_roles(node: Node) -> frozenset[str]:
    """The roles under which the observation may give this element."""
    if node.tag == "input" and node.attributes.get("type", "").lower() in ("month", "week"):
        return frozenset({node.attributes["type"].lower()})
    accepted = ROLES.get(node.role, frozenset({node.role.lower()}))
    if node.own_role:  # says what the element is built of, not what it is for
        accepted |= {"generic"}
    if node.editable and node.role not in ACTION_ROLES:  # ARIA has no role for an editing host; users know it as this
        accepted |= {"textbox"}
    return accepted


def plain(text: str) -> str:
    """Normalise a name: runs of white space become one blank; private-use and zero-width characters are removed.

    Private-use characters are icons of a font.
    """
    text = re.sub(r"[\ue000-\uf8ff\U000f0000-\U0010fffd\u200b-\u200f\u2060\ufeff\u00ad\ufe0e\ufe0f]", "", text)
    return re.sub(r"\s+", " ", text).strip()


def same_name(theirs: str, ours: str) -> bool:
    """Do the names agree? A cut name, which ends with an ellipsis, has to agree as far as it goes."""
    theirs, ours = plain(theirs), plain(ours)
    return theirs == ours or (len(ours) > 40 and ours.endswith("…") and theirs.startswith(ours[:-1].rstrip()))


def names_agree(node: Node, ours: str) -> bool:
    """Is this one of the names under which the observation may give the element?"""
    if same_name(node.name, ours):
        return True
    if node.host_name and not plain(node.name) and node.tag in CONTROLS:
        return not plain(ours) or same_name(node.host_name, ours)
    if node.name in BUILT_IN_NAMES and node.tag in ("input", "video", "audio"):
        return not plain(ours)
    if node.name.strip() and not plain(node.name):  # an icon
        return plain(ours) in ("", plain(node.attributes.get("title", "")))
    if not plain(node.name) and (node.own_role or node.role in NAMELESS) and node.role not in ACTION_ROLES:
        said, text = (re.sub(r"\s", "", plain(one)).rstrip("…") for one in (ours, node.text))
        return text.startswith(said) if ours.endswith("…") or len(text) < len(said) else text == said
    return False


def _in_region(node: Node, region: Region, size: tuple[int, int]) -> bool:
    if region == "page" or node.box is None:
        return True
    x, y, width, height = node.box
    return x < size[0] and y < size[1] and x + width > 0 and y + height > 0


Kind = Literal["missing", "role", "name", "false"]


@dataclass(frozen=True)
class Disagreement:
    """One element about which the two sides differ."""

    kind: Kind
    node: Node
    theirs: str
    ours: str


@dataclass
class Verdict:
    """Counts of one page, or of several together."""

    judged: int = 0
    """Elements that the judge calls interactive."""
    matched: int = 0
    roles: int = 0
    """Of the matched, those whose roles agree."""
    names: int = 0
    both: int = 0
    elements: int = 0
    """Elements of the observation."""
    false: int = 0
    disagreements: list[Disagreement] = field(default_factory=list)

    @property
    def recall(self) -> float:
        """Share of the judged that were matched; 1 on a page without any."""
        return _share(self.matched, self.judged)

    @property
    def agreement(self) -> float:
        """Share of the matched whose role and name both agree."""
        return _share(self.both, self.matched)

    @property
    def false_share(self) -> float:
        """Share of the observation's elements that can't be acted on."""
        return self.false / self.elements if self.elements else 0.0

    @property
    def shares(self) -> dict[str, float]:
        """All shares; `role` and `name` are of the matched, those that agree."""
        return {
            "recall": self.recall, "role": _share(self.roles, self.matched), "name": _share(self.names, self.matched),
            "agreement": self.agreement, "false_share": self.false_share,
        }  # fmt: skip

    @property
    def good(self) -> bool:
        """Are the targets met?"""
        return self.recall >= RECALL and self.agreement >= AGREEMENT and self.false_share <= FALSE

    def figures(self) -> dict[str, float | int]:
        """Counts and shares, for JSON."""
        counts = {name: getattr(self, name) for name in ("judged", "matched", "elements", "false")}
        return {**counts, **{name: round(share, 4) for name, share in self.shares.items()}}


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0


def judge(
    nodes: Iterable[Node], elements: Sequence[Element], region: Region = "page", size: tuple[int, int] = (1280, 720)
) -> Verdict:
    """Compare what Chromium knows with an observation's elements.

    Args:
        nodes: Chromium's side.
        elements: `obs["elements"]` of an environment made with `stamp_ids=True`.
        region: what of the page is compared.
        size: width and height of the viewport, for the region `viewport`.
    """
    ours = {str(element["id"]): element for element in elements}
    verdict = Verdict()
    seen: set[str] = set()
    for node in nodes:
        element = ours.get(node.stamp)
        seen.add(node.stamp)
        if not _in_region(node, region, size):
            continue
        if is_interactive(node):
            verdict.judged += 1
            if element is None:
                verdict.disagreements.append(Disagreement("missing", node, f"{node.role} {plain(node.name)!r}", ""))
            else:
                _compare(node, element, verdict)
        if element is not None:
            verdict.elements += 1
            if not is_interactive(node) and not can_be_acted_on(node, element["states"]):
                verdict.false += 1
                theirs = f"{node.role or 'no node'} {plain(node.name)!r}{' inert' * node.inert}"
                verdict.disagreements.append(Disagreement("false", node, theirs, _described(element)))
    # The page replaced these between the observation and the judge's look, or removed their stamps.
    left = (element for stamp, element in ours.items() if stamp not in seen)
    verdict.elements += sum(region == "page" or bool(element["in_viewport"]) for element in left)
    return verdict


def _compare(node: Node, element: Element, verdict: Verdict) -> None:
    verdict.matched += 1
    role = element["role"] in accepted_roles(node)
    name = names_agree(node, element["name"])
    verdict.roles += role
    verdict.names += name
    verdict.both += role and name
    if not role:
        verdict.disagreements.append(Disagreement("role", node, node.role, element["role"]))
    if not name:
        verdict.disagreements.append(Disagreement("name", node, plain(node.name), plain(element["name"])))


def _described(element: Element) -> str:
    return f"{element['role']} {plain(element['name'])!r}"


def total(verdicts: Iterable[Verdict]) -> Verdict:
    """Add verdicts up: the micro average, where each element counts the same."""
    out = Verdict()
    for verdict in verdicts:
        for name in ("judged", "matched", "roles", "names", "both", "elements", "false"):
            setattr(out, name, getattr(out, name) + getattr(verdict, name))
    return out


def mean(verdicts: Sequence[Verdict]) -> dict[str, float]:
    """The macro average of the shares, where each page counts the same."""
    shares = [verdict.shares for verdict in verdicts] or [dict.fromkeys(Verdict().shares, 0.0)]
    return {name: sum(each[name] for each in shares) / len(shares) for name in shares[0]}


def grouped(disagreements: Iterable[Disagreement]) -> list[list[Disagreement]]:
    """Put alike disagreements together, the most frequent first: one defect often shows a hundred times."""
    groups: dict[tuple[str, ...], list[Disagreement]] = {}
    for one in disagreements:
        node = one.node
        shape = (one.kind, node.tag, node.attributes.get("type", ""), node.role, node.where)
        alike = {"missing": (), "false": (node.attributes.get("class", "")[:30],), "role": (one.ours,)}.get(
            one.kind, (_difference(one.theirs, one.ours),)
        )
        groups.setdefault((*shape, *alike), []).append(one)
    return sorted(groups.values(), key=len, reverse=True)


def _difference(theirs: str, ours: str) -> str:
    """In which way do two names differ?"""
    some, other = theirs.replace(" ", ""), ours.replace(" ", "")
    ways = {
        "ours is empty": not ours,
        "theirs is empty": not theirs,
        "blanks only": some == other,
        "capitals only": some.casefold() == other.casefold(),
        "ours lacks a part": theirs.startswith(ours) or theirs.endswith(ours),
        "ours has more": ours.startswith(theirs) or ours.endswith(theirs),
    }
    return next((way for way, so in ways.items() if so), "different")
