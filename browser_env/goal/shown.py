"""Parts of a page that a criterion can refer to: elements, and outline parts without an ID, such as headings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from selfsurf.browser_env.goal.spec import WhichElement
from selfsurf.browser_env.observe.delta import CHANGED, NO_CHANGE
from selfsurf.browser_env.outline import ElementText, OutlineLine, parse_line, parse_outline

STRUCTURE = frozenset({
    "alert", "alertdialog", "article", "banner", "cell", "columnheader", "complementary", "contentinfo", "dialog",
    "figure", "form", "grid", "group", "heading", "iframe", "img", "list", "listitem", "log", "main", "menu",
    "menubar", "meter", "navigation", "progressbar", "radiogroup", "region", "row", "rowheader", "search", "status",
    "table", "tablist", "tabpanel", "toolbar", "tree",
})  # fmt: skip
"""Roles that an outline shows even without an ID (`page/roles.js`)."""

_UNSEEN = frozenset({
    "blockquote", "caption", "code", "comment", "definition", "deletion", "directory", "document", "emphasis",
    "feed", "generic", "insertion", "mark", "marquee", "math", "note", "paragraph", "rowgroup", "separator",
    "strong", "subscript", "suggestion", "superscript", "term", "time", "timer", "tooltip",
})  # fmt: skip
"""Roles that an outline shows only for elements."""

_LISTED = frozenset({"a", "button", "input", "select", "summary", "textarea"})
"""Tags that an observation always lists as elements. Elements with other tags may be present but not listed."""

_CUT = re.compile(r"^ *\.\.\. (?:left out|\d+ lines|the page (?:goes on|is longer))", re.MULTILINE)
_BEYOND = re.compile(r"^[+~]? *\.\.\. the page (?:goes on|is longer)", re.MULTILINE)
_TEXT_CUT = re.compile(r"\n\.\.\. cut: the page is longer than \d+ characters\Z")
_STATES = re.compile(r"(level=\S+)?( ?busy)?")


def elements_for(wanted: WhichElement, page: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return a page's elements, plus the outline parts without an ID if their roles allow a match."""
    elements = [one for one in page.get("elements", ()) if isinstance(one, Mapping)]
    if wanted.tag or (wanted.role and wanted.role not in STRUCTURE):
        return elements
    by_id = {one.get("id"): one for one in elements}
    found = []
    for line in parse_outline(str(page.get("dom", ""))):
        one = by_id.pop(line.id, None) if line.id is not None else _structure(line)
        found += [] if one is None else [one]
    return [*found, *by_id.values()]


def may_be_there(wanted: WhichElement, page: Mapping[str, Any]) -> bool:
    """Whether a page may have a match missing from `elements_for`: an unlisted kind, or an incomplete record."""
    if goes_on(page):
        return True
    if wanted.tag:
        return wanted.tag not in _LISTED and all(one.get("tag") != wanted.tag for one in elements_for(wanted, page))
    dom = page.get("dom")
    whole = isinstance(dom, str) and dom.partition("\n")[0] not in (NO_CHANGE, CHANGED) and not _CUT.search(dom)
    return wanted.role in _UNSEEN or ((not wanted.role or wanted.role in STRUCTURE) and not whole)


def goes_on(page: Mapping[str, Any]) -> bool:
    """Whether a page continues beyond its observed part."""
    dom, text = str(page.get("dom", "")), str(page.get("page_text", ""))
    if dom.partition("\n")[0] in (NO_CHANGE, CHANGED):
        return True  # a delta omits an unchanged note that the page continues
    return _BEYOND.search(dom) is not None or _TEXT_CUT.search(text) is not None


def _structure(line: OutlineLine) -> Mapping[str, Any] | None:
    """Return the page part that an outline line without an ID describes; None if the line is text."""
    role, colon, text = line.text.partition(": ")
    if colon and role in STRUCTURE:
        found = ElementText(role, parse_line(text).words)  # the part's only text is its name
    else:
        one = line._replace(id=0).element
        if one is None or one.role not in STRUCTURE or not _STATES.fullmatch(one.states):
            return None
        found = one
    return {"role": found.role, "name": found.name, "value": found.value, "states": tuple(found.states.split())}
