"""Fidelity of an observation, judged by Chromium's accessibility tree, in pure functions without a browser.

`scripts.observation.chromium_view` collects Chromium's view as `Node`s. This module decides which of them are
interactive, joins them to the observation's elements by the stamp that `stamp_ids=True` writes, and counts.

**Interactive elements.** An element is judged interactive if the accessibility tree doesn't ignore it, it has a box,
and it
- has one of the roles in `ACTION_ROLES` (enabled or not), or
- is focusable by the user: natively, through a `tabindex` of at least 0, or as an editing host.

Excluded are
- inert elements, and those in a frame without an area;
- `option`s of a `<select>`, which the observation gives as `options` of the select;
- parts that browsers build into a control (user-agent shadow trees: the fields and arrows of a date input, the buttons
  of a video), which the control represents;
- documents and frames, whose content is judged by itself. A document that is an editing host does count;
- elements that only scripts can focus (negative `tabindex`, no role of action), and scroll containers, which are
  focusable merely because they scroll;
- SVG and other elements for which Chromium has no accessibility node at all.

**A box** is a layout box with an area, anywhere on the page, even if clipped or transparent. For an element whose own
box is empty, it is the box of its contents (a link around a float) unless the element clips them, of its label, or of
the image that uses its map.

**Region.** `page`: everything. `viewport`: on both sides, only elements that overlap the viewport.

**Recall** is the share of judged elements that the observation has as elements of their own; an ancestor or a label in
their place doesn't count. **Roles** agree when the observation's role is one of `accepted_roles`. **Names** agree when
they are equal after `plain`; a name that the observation ends with an ellipsis agrees when the judge's name starts with
the rest. Further names are accepted:
- for a field without a name in the shadow tree of a custom element, Chromium's name for that element, because a label
  names the host;
- for a role that takes no name (`NAMELESS`, roles of Chromium's own), the element's text;
- for a file input ("Choose File" to Chromium) or a video ("Unable to play media."), no name, because the browser writes
  these texts itself;
- for a name that consists of icons, the title.

**Agreement** is the share of matched elements whose role and name both agree.

**A false element** is an element of the observation that is not judged interactive and can't be acted on: it has no
listener of its own for clicks, pointers or drags, and no pointer cursor; it is not focusable, editable or draggable; it
is neither a native control nor the label of one; and it has no role of action that the accessibility tree merely hides
(`aria-hidden`). A cell of a grid that identifies itself (`aria-selected`, `data-date`) may have the listener on any
ancestor. An element that is not rendered (closed details, `content-visibility: hidden`) is false regardless of
listeners. An inert element is false unless its states include `inert`, `disabled` or `covered`.
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
"""Targets: minimum recall, minimum agreement, maximum share of false elements."""

TARGETS = {"recall": RECALL, "agreement": AGREEMENT, "false_share": FALSE}

ACTION_ROLES = frozenset({
    "button", "link", "textbox", "searchbox", "combobox", "listbox", "checkbox", "radio", "switch", "slider",
    "spinbutton", "tab", "menuitem", "menuitemcheckbox", "menuitemradio", "treeitem", "option",
    "Date", "DateTime", "InputTime", "ColorWell", "DisclosureTriangle", "DisclosureTriangleGrouped",
})  # fmt: skip
"""Chromium's roles, as the protocol spells them, of elements that can be acted on."""

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
"""Equivalent roles of the observation, by Chromium's role. Other roles are accepted under their own name."""


NAMELESS = frozenset({
    "generic", "none", "paragraph", "strong", "emphasis", "code", "deletion", "insertion", "subscript", "superscript",
    "caption", "definition", "term", "mark", "time", "row", "rowgroup", "list", "listitem", "group",
})  # fmt: skip
"""Roles that the ARIA specification forbids to name, or that take no name from their contents."""

BUILT_IN_NAMES = frozenset({"Choose File", "Choose Files", "No file chosen", "Unable to play media."})


@dataclass(frozen=True)
class Node:
    """An element of the page in Chromium's view."""

    key: tuple[int, int]
    """Protocol session and backend node id, unique on the page."""
    tag: str
    """Tag name in lower case."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    html: str = ""
    """Start tag and first text, for display."""
    path: str = ""
    """Tags, ids and classes of the nearest ancestors, for display."""
    box: Box | None = None
    """Box of the element or its substitute: x, y, width, height in CSS pixels of the top frame's viewport; None without
    one."""
    role: str = ""
    """Chromium's role; empty without an accessibility node."""
    own_role: bool = False
    """Whether the role is Chromium's own, without a counterpart in ARIA."""
    name: str = ""
    host_name: str = ""
    """Chromium's name for the custom element whose shadow tree contains the element."""
    text: str = ""
    """All text in the element, visible or not, cut after some hundred characters."""
    ignored: bool = True
    focusable: bool = False
    editable: bool = False
    inert: bool = False
    clickable: bool = False
    """Whether the element responds to clicks: Chromium reports it or its list as clickable, it is a control, or it has
    listeners for clicks, pointers or drags (for a grid cell, possibly on an ancestor)."""
    pointer: bool = False
    """Whether the cursor over the element is the pointing hand."""
    labels: bool = False
    """Whether the element is a label of a control, or inside one."""
    in_select: bool = False
    built_in: bool = False
    """Whether the element is part of a user-agent shadow tree."""
    shown: bool = True
    """Whether the element is rendered, outside of `content-visibility: hidden` and closed details. Looked up only for
    stamped elements."""
    where: str = ""
    """Location for display: `closed` or `shadow` in a closed or open shadow root, `frame` or `foreign` in frames."""
    stamp: str = ""
    """Value of `data-agent-id`, written by the observation; empty if there is none."""


def is_interactive(node: Node) -> bool:
    """Whether the judge considers an element interactive, as defined in the module's docstring."""
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
    # Otherwise it is focusable as an editing host, or because it scrolls.
    return node.attributes.get("contenteditable", "false").lower() != "false"


def can_be_acted_on(node: Node, states: Sequence[str]) -> bool:
    """Whether acting on an element that is not judged interactive could have an effect."""
    if node.inert:
        return bool({"inert", "disabled", "covered"} & set(states))
    return node.shown and (
        any((node.clickable, node.pointer, node.labels, node.focusable, node.editable))
        or node.attributes.get("draggable", "").lower() == "true"
        or (node.role in ACTION_ROLES and not node.built_in)
        or node.attributes.get("role", "") in ACTION_ROLES
    )


def accepted_roles(node: Node) -> frozenset[str]:
    """Return the roles that are accepted from the observation for an element."""
    if node.tag == "input" and node.attributes.get("type", "").lower() in ("month", "week"):
        return frozenset({node.attributes["type"].lower()})
    accepted = ROLES.get(node.role, frozenset({node.role.lower()}))
    if node.own_role:  # the role describes the construction of the element, not its purpose
        accepted |= {"generic"}
    if node.editable and node.role not in ACTION_ROLES:  # ARIA has no role for an editing host; users see a textbox
        accepted |= {"textbox"}
    return accepted


def plain(text: str) -> str:
    """Normalise a name: collapse whitespace, and remove private-use and zero-width characters.

    Private-use characters are icons of a font.
    """
    text = re.sub(r"[\ue000-\uf8ff\U000f0000-\U0010fffd\u200b-\u200f\u2060\ufeff\u00ad\ufe0e\ufe0f]", "", text)
    return re.sub(r"\s+", " ", text).strip()


def same_name(theirs: str, ours: str) -> bool:
    """Whether two names agree; a cut name, which ends with an ellipsis, has to be a prefix."""
    theirs, ours = plain(theirs), plain(ours)
    return theirs == ours or (len(ours) > 40 and ours.endswith("…") and theirs.startswith(ours[:-1].rstrip()))


def names_agree(node: Node, ours: str) -> bool:
    """Whether the observation's name is accepted for an element."""
    if same_name(node.name, ours):
        return True
    if node.host_name and not plain(node.name) and node.tag in CONTROLS:
        return not plain(ours) or same_name(node.host_name, ours)
    if node.name in BUILT_IN_NAMES and node.tag in ("input", "video", "audio"):
        return not plain(ours)
    if node.name.strip() and not plain(node.name):  # the name is an icon
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
    """An element on which Chromium and the observation disagree."""

    kind: Kind
    node: Node
    theirs: str
    ours: str


@dataclass
class Verdict:
    """Counts of one page, or of several together."""

    judged: int = 0
    """Number of elements judged interactive."""
    matched: int = 0
    roles: int = 0
    """Number of matched elements whose roles agree."""
    names: int = 0
    both: int = 0
    elements: int = 0
    """Number of the observation's elements."""
    false: int = 0
    disagreements: list[Disagreement] = field(default_factory=list)

    @property
    def recall(self) -> float:
        """Share of judged elements that were matched; 1 on a page without any."""
        return _share(self.matched, self.judged)

    @property
    def agreement(self) -> float:
        """Share of matched elements whose role and name both agree."""
        return _share(self.both, self.matched)

    @property
    def false_share(self) -> float:
        """Share of the observation's elements that can't be acted on."""
        return self.false / self.elements if self.elements else 0.0

    @property
    def shares(self) -> dict[str, float]:
        """All shares by name; `role` and `name` are agreements among matched elements."""
        return {
            "recall": self.recall, "role": _share(self.roles, self.matched), "name": _share(self.names, self.matched),
            "agreement": self.agreement, "false_share": self.false_share,
        }  # fmt: skip

    @property
    def good(self) -> bool:
        """Whether all targets are met."""
        return self.recall >= RECALL and self.agreement >= AGREEMENT and self.false_share <= FALSE

    def figures(self) -> dict[str, float | int]:
        """Return counts and shares for JSON."""
        counts = {name: getattr(self, name) for name in ("judged", "matched", "elements", "false")}
        return {**counts, **{name: round(share, 4) for name, share in self.shares.items()}}


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0


def judge(
    nodes: Iterable[Node], elements: Sequence[Element], region: Region = "page", size: tuple[int, int] = (1280, 720)
) -> Verdict:
    """Compare Chromium's view with an observation's elements.

    Args:
        nodes: Chromium's view.
        elements: `obs["elements"]` of an environment made with `stamp_ids=True`.
        region: Part of the page to compare.
        size: Width and height of the viewport, for the region `viewport`.
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
    # The page replaced these elements between the two looks, or removed their stamps.
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
    """Return the sum of the counts: the micro average, which weights elements equally."""
    out = Verdict()
    for verdict in verdicts:
        for name in ("judged", "matched", "roles", "names", "both", "elements", "false"):
            setattr(out, name, getattr(out, name) + getattr(verdict, name))
    return out


def mean(verdicts: Sequence[Verdict]) -> dict[str, float]:
    """Return the mean of the shares: the macro average, which weights pages equally."""
    shares = [verdict.shares for verdict in verdicts] or [dict.fromkeys(Verdict().shares, 0.0)]
    return {name: sum(each[name] for each in shares) / len(shares) for name in shares[0]}


def grouped(disagreements: Iterable[Disagreement]) -> list[list[Disagreement]]:
    """Group similar disagreements, the most frequent first, because one defect often causes many."""
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
    """Return the way in which two names differ."""
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
