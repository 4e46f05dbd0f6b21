"""Model context from any page: its outline as Markdown, the marked screenshot and the elements by id.

For Playwright pages outside of any environment; the page is observed but not changed. An environment's observation is
accepted, too.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from selfsurf.browser_env.browser.page_script import PageScript
from selfsurf.browser_env.errors import ActionError
from selfsurf.browser_env.limits import Limits
from selfsurf.browser_env.observation import Element, Observation
from selfsurf.browser_env.observe.capture import ViewOptions, capture
from selfsurf.browser_env.observe.marks import draw
from selfsurf.browser_env.outline import OutlineLine, parse_outline
from selfsurf.browser_env.session.session import Session
from selfsurf.browser_env.session.tab import ForeignFrame, Tab

if TYPE_CHECKING:
    from playwright.async_api import Page

_XPATH = """function() {
  const steps = [];
  for (let node = this; node && node.nodeType === 1; node = node.parentNode) {
    let place = 1;
    for (let one = node.previousElementSibling; one; one = one.previousElementSibling)
      if (one.nodeName === node.nodeName) place++;
    const name = node.namespaceURI === 'http://www.w3.org/1999/xhtml' ? node.localName : `*[name()='${node.nodeName}']`;
    steps.unshift(`${name}[${place}]`);
  }
  return '/' + steps.join('/');
}"""


@dataclass(frozen=True)
class ContextConfig:
    """Options for the content of a context."""

    screenshot: bool = True
    """Whether to include the screenshot with the elements' boxes and ids."""
    roles: frozenset[str] | None = None
    """Roles of the elements to list, such as button; None for all. Ids and XPaths don't depend on the choice."""
    viewport_only: bool = False
    """Whether to list only elements in the viewport."""
    xpaths: bool = False
    """Whether to include the XPath of each listed element."""
    reach: float | None = 1.0
    """Viewport heights observed above and below the viewport; None for the whole page."""
    budget: int | None = None
    """Maximum number of characters of the outline; None for no limit."""
    limits: Limits = field(default_factory=Limits)
    """Maximum lengths of texts taken from the page."""


@dataclass(frozen=True)
class Context:
    """Context of a page for a model."""

    text: str
    """Outline as a nested Markdown list; elements begin with `[id]`."""
    elements: Mapping[int, Element]
    """Elements in the text, by id."""
    screenshot: NDArray[np.uint8] | None
    """Screenshot of the viewport with the listed elements marked, (height, width, 3), RGB; None if not requested."""
    xpaths: Mapping[int, str]
    """XPaths by element id, relative to the element's frame or shadow root; empty unless requested."""


async def build_context(page: Page | Observation, config: ContextConfig | None = None) -> Context:
    """Return the context of a page for a model. The result depends only on page and config; the page is not changed.

    Args:
        page: a page of Playwright's async API, in Chromium; or an observation.
        config: what the context contains.

    Raises:
        TypeError: `page` is neither.
        ValueError: XPaths are requested for an observation, which has none.
    """
    config = config or ContextConfig()
    if isinstance(page, dict):
        if config.xpaths:
            raise ValueError("An observation has no XPaths: give the page itself.")
        return _context(config, page["elements"], page["dom"], page.get("screenshot"), {})
    if not inspect.iscoroutinefunction(getattr(page, "title", None)):
        raise TypeError(f"build_context takes an observation or a page of playwright.async_api, not {page!r}.")
    tab = await Tab.open(page)
    try:
        size = await page.evaluate("[innerWidth, innerHeight]")
        options = ViewOptions(config.screenshot, budget=config.budget, reach=config.reach, limits=config.limits)
        view = await capture(cast(Session, _OnePage(tab)), options, (int(size[0]), int(size[1])))
        shown = _context(config, view.elements, view.dom, view.screenshot, {})
        if not config.xpaths:
            return shown
        return replace(shown, xpaths={id: await xpath_of(tab, view.foreign, id) for id in shown.elements})
    finally:
        await tab.protocol.detach()


class _OnePage:
    """The part of a session that an observation of a single page needs."""

    def __init__(self, tab: Tab) -> None:
        self.active = tab
        self.tabs = [tab]
        self.next_id = 1

    def note_missed(self, told: Any) -> None:
        """Ignore missed presses: no action was carried out."""

    def note_read_back(self, told: Any) -> None:
        """Ignore read-back fields: no field was written to."""

    def note_refused(self, fields: list[str]) -> None:
        """Ignore refused forms: no form was sent."""


async def xpath_of(tab: Tab, foreign: Mapping[int, ForeignFrame], id: int) -> str:
    """Return the XPath of an element, within its own frame or shadow root.

    Args:
        tab: tab of the page.
        foreign: frames of other origins by the ids of their elements.
        id: id of the element.

    Raises:
        ActionError: the element is gone.
    """
    world: PageScript = foreign[id].world if id in foreign else tab.main
    node = await world.call("node", id=id)
    if "objectId" not in node:
        raise ActionError(f"There is no element {id} on the page.")
    answer = await world.protocol.send(
        "Runtime.callFunctionOn",
        {"objectId": node["objectId"], "functionDeclaration": _XPATH, "returnByValue": True},
    )
    return str(answer["result"]["value"])


def _context(
    config: ContextConfig,
    elements: tuple[Element, ...],
    dom: str,
    screenshot: NDArray[np.uint8] | None,
    xpaths: Mapping[int, str],
) -> Context:
    lines = parse_outline(dom) if dom else []
    written = {line.id for line in lines}
    kept = {
        element["id"]: element
        for element in elements
        if element["id"] in written
        and (config.roles is None or element["role"] in config.roles)
        and (element["in_viewport"] or not config.viewport_only)
    }
    text = "\n".join(_item(line) for line in lines if line.id is None or line.id in kept)
    marked = None
    if screenshot is not None and config.screenshot:
        marked = draw(screenshot, list(kept.values()))
    return Context(text, kept, marked, xpaths)


def _item(line: OutlineLine) -> str:
    return f"{' ' * line.indent}- {line.text if line.id is None else f'[{line.id}] {line.text}'}"
