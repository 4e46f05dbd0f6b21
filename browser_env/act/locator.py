"""Search for the element that a selector names: in the last observation, or with Playwright's locators."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from selfsurf.browser_env.browser.page_script import read_script, with_dom
from selfsurf.browser_env.errors import ActionError
from selfsurf.browser_env.observation import Element
from selfsurf.browser_env.selector import Step, parse_selector
from selfsurf.browser_env.text import first_line

if TYPE_CHECKING:
    from playwright.async_api import ElementHandle, Frame

    from selfsurf.browser_env.act.targets import Targets
    from selfsurf.browser_env.session.tab import ForeignFrame

MOST_NAMED = 5
"""Maximum number of matching elements that an error lists."""

_CHANGED = "The page changed while the element was being located; try again."

_ROLE = re.compile(r"""role=([a-z]+)\[\s*name\s*=\s*(["'])(.*)\2\s*(i?)\s*\]""")


async def find_element(targets: Targets, selector: str) -> int:
    """Return the id of the one element that a selector names.

    Raises:
        ActionError: no element or several match, or the selector is malformed.
    """
    steps = parse_selector(selector)
    seen = _in_observation(steps, targets.elements)
    if seen is not None and await targets.world(seen).call("has", id=seen):
        return seen
    return await _in_page(targets, steps, selector)


def _in_observation(steps: Sequence[Step], elements: Sequence[Element]) -> int | None:
    """Return the id of the one observed element with the selector's role and name; None if there is no such element."""
    if len(steps) != 1:
        return None
    step = steps[0]
    if step.method == "get_by_role" and set(step.named) <= {"name", "exact"} and step.named.get("name"):
        role, name, exact = step.args[0], step.named["name"], bool(step.named.get("exact"))
        found = [el for el in elements if el["role"] == role and _says(el["name"], name, exact)]
    elif step.method == "locator" and (role_name := _ROLE.fullmatch(step.args[0].strip())):
        role, _, name, loose = role_name.groups()
        same = str.casefold if loose else str
        found = [el for el in elements if el["role"] == role and same(el["name"]) == same(name)]
    else:
        return None
    return found[0]["id"] if len(found) == 1 else None


def _says(text: str, wanted: str, exact: bool) -> bool:
    return text == wanted if exact else " ".join(wanted.split()).lower() in text.lower()


async def _in_page(targets: Targets, steps: Sequence[Step], selector: str) -> int:
    from playwright.async_api import Error

    page = targets.tab.page
    try:
        found = [(page.main_frame, handle) for handle in await _handles(page.main_frame, steps)]
        if not found:
            others = [frame for frame in page.frames if frame is not page.main_frame and not frame.is_detached()]
            answers = await asyncio.gather(*(_handles(frame, steps) for frame in others), return_exceptions=True)
            for frame, handles in zip(others, answers, strict=True):
                if not isinstance(handles, BaseException):  # a removed frame has no elements
                    found += [(frame, handle) for handle in handles]
    except Error as error:
        why = first_line(error).split("Error: ", 1)[-1].removeprefix("Locator.element_handles: ")
        raise ActionError(f"The selector {selector!r} can't be used: {why}") from None
    if not found:
        raise ActionError(f"No element matches {selector!r}.", "not_found")
    if len(found) > 1:
        shown = await asyncio.gather(*(handle.is_visible() for _, handle in found[:50]), return_exceptions=True)
        visible = [pair for pair, seen in zip(found, shown, strict=False) if seen is True]
        found = visible if len(visible) == 1 else found
    ids = [await _id_of(targets, frame, handle) for frame, handle in found[:MOST_NAMED]]
    if len(found) > 1:
        named = ", ".join(str(id) for id in ids)
        more = " and more" if len(found) > MOST_NAMED else ""
        raise ActionError(
            f"{len(found)} elements match {selector!r}: {named}{more}; use an id or a more exact selector.", "not_found"
        )
    return ids[0]


async def _handles(frame: Frame, steps: Sequence[Step]) -> list[ElementHandle]:
    place: Any = frame
    for step in steps:
        member = getattr(place, step.method)
        place = member(*step.args, **step.named) if callable(member) else member
    return list(await place.element_handles())


async def _id_of(targets: Targets, frame: Frame, handle: ElementHandle) -> int:
    """Return our id of a Playwright element, which the in-page script finds by its path."""
    path, place = await _way(targets, frame, handle)
    world = targets.tab.main if place is None else place.world
    answer = await world.call("idAt", path=path, firstId=targets.session.next_id)
    if not answer:
        raise ActionError(_CHANGED, "not_found")
    id = int(answer["id"])
    targets.session.next_id = max(targets.session.next_id, id + 1)
    if place is not None:
        targets.foreign[id] = place
    return id


async def _way(targets: Targets, frame: Frame, handle: ElementHandle) -> tuple[list[Any], ForeignFrame | None]:
    """Return an element's path in the outermost document of its origin, and the document's frame (None for the top)."""
    way = await handle.evaluate(with_dom(read_script("path")))
    for _ in range(way["hops"]):
        frame = frame.parent_frame or frame
    if frame.parent_frame is None:
        return way["path"], None
    path, outer = await _way(targets, frame.parent_frame, await frame.frame_element())
    parent = targets.tab.main if outer is None else outer.world
    index = await parent.call("holderAt", path=path)
    place = None if index is None else await targets.tab.enter(parent, index, outer)
    if place is None:
        raise ActionError(_CHANGED, "not_found")
    return way["path"], place
