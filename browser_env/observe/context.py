"""What a model needs of a page, made of any page: its outline as Markdown, the marked screenshot, the elements by id.

For pages that no environment holds: a Playwright page of one's own, which is looked at and left as it is. An
observation of an environment is taken, too.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from selfsurf.browser_env.errors import ActionError
from selfsurf.browser_env.observation import Element, Observation
from selfsurf.browser_env.observe.capture import ViewOptions, capture
from selfsurf.browser_env.observe.limits import Limits
from selfsurf.browser_env.observe.marks import draw
from selfsurf.browser_env.observe.outline import OutlineLine, parse_outline
from selfsurf.browser_env.session.page_script import PageScript
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
    """What a context holds."""

    screenshot: bool = True
    """The screenshot with the elements' boxes and ids."""
    roles: frozenset[str] | None = None
    """Roles of the elements that are listed, such as button; None for all. Their ids and XPaths are the same."""
    viewport_only: bool = False
    """List only elements that are in the viewport."""
    xpaths: bool = False
    """Also give the XPath of each element that is listed."""
    reach: float | None = 1.0
    """How many viewport heights above and below the viewport are seen; None for the whole page."""
    budget: int | None = None
    """Most characters of the outline; None for no limit."""
    limits: Limits = field(default_factory=Limits)
    """How much is taken of what a page writes."""


@dataclass(frozen=True)
class Context:
    """A page as it was."""

    text: str
    """The outline as a nested Markdown list; elements begin with `[id]`."""
    elements: Mapping[int, Element]
    """Those in the text, by their ids."""
    screenshot: NDArray[np.uint8] | None
    """(height, width, 3), RGB, of the viewport, with the same elements marked."""
    xpaths: Mapping[int, str]
    """By the elements' ids; empty unless asked for. Within an element's own frame or shadow root."""


async def build_context(page: Page | Observation, config: ContextConfig | None = None) -> Context:
    """Return what a model needs of a page. The same page and config give the same context; the page stays as it is.

    Args:
        page: of Playwright's async API, in Chromium; or an observation.
        config: what the context holds.

    Raises:
        TypeError: it is neither.
        ValueError: an observation was given, and its elements' XPaths are asked for: only a page knows them.
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
    """As much of a session as an observation needs."""

    def __init__(self, tab: Tab) -> None:
        self.active = tab
        self.tabs = [tab]
        self.next_id = 1

    def note_missed(self, told: Any) -> None:
        """Nothing was pressed."""

    def note_read_back(self, told: Any) -> None:
        """Nothing was written."""

    def note_refused(self, fields: list[str]) -> None:
        """No form was sent."""


async def xpath_of(tab: Tab, foreign: Mapping[int, ForeignFrame], id: int) -> str:
    """Return the XPath of an element, within its own frame or shadow root.

    Args:
        tab: whose page.
        foreign: frames of another origin, by the ids of their elements.
        id: of the element.

    Raises:
        ActionError: it is gone.
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
