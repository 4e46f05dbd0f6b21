"""Conversion between our actions and Stagehand's, whose elements are named by frame and node, such as `0-16`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from selfsurf.browser_env.actions import (
    Back,
    BaseAction,
    Click,
    Fill,
    Forward,
    Hover,
    Press,
    Scroll,
    Select,
    Type,
    Wait,
)
from selfsurf.browser_env.router.provider import ProviderError

if TYPE_CHECKING:
    from stagehand import Page, Stagehand

ELEMENT = re.compile(r"(?m)^(?P<indent>\s*)\[(\d+-\d+)\]")
"""Pattern of an element's name at the beginning of a line of the outline."""

NODES_OF_A_FRAME = 10**9
"""Size of the number range of each frame, larger than any frame's number of nodes."""


def element_id(name: str) -> int:
    """Return a number for Stagehand's name of an element; in the main frame it is the backend node ID."""
    frame, node = name.split("-")
    return int(frame) * NODES_OF_A_FRAME + int(node)


def outlined(tree: str) -> str:
    """Return Stagehand's tree with numbers instead of names."""
    return ELEMENT.sub(lambda match: f"{match['indent']}[{element_id(match[2])}]", tree)


async def carry_out(
    stagehand: Stagehand, page: Page, action: BaseAction, paths: Mapping[int, str], milliseconds: int
) -> str:
    """Perform a typed action, without a model.

    Args:
        stagehand: client that performs the action.
        page: page to act on.
        action: the action.
        paths: XPaths by the IDs of the last observation.
        milliseconds: timeout of the action.

    Returns:
        The action as JSON.

    Raises:
        ProviderError: Stagehand doesn't support the action, or the action did not succeed.
    """
    id = getattr(action, "id", None)
    if id is not None and (found := _at_element(action)) is not None:
        method, arguments = found
        given: Any = {
            "selector": f"xpath={paths[id]}", "description": f"element {id}", "method": method, "arguments": arguments,
        }  # fmt: skip
        result = await stagehand.act(given, page=page, timeout=float(milliseconds))
        if not result.data.success:
            raise ProviderError("not_found", f"{result.data.message}.", nodes=(id,))
    else:
        await _at_page(page, action)
    return action.to_json()


def _at_element(action: BaseAction) -> tuple[str, list[str]] | None:
    match action:
        case Click(count=count, button=button) if count <= 2 and not action.modifiers:
            return ("doubleClick" if count == 2 else "click", [] if button == "left" else [button])
        case Fill(text=text):
            return "fill", [text]
        case Type(text=text):
            return "type", [text]
        case Press(key=key):
            return "press", [key]
        case Select(options=(option,)):
            return "selectOptionFromDropdown", [option]
        case Hover():
            return "hover", []
    return None


async def _at_page(page: Page, action: BaseAction) -> None:
    match action:
        case Click(x=float(x), y=float(y)):
            await page.click(x, y, button=action.button, click_count=action.count)
        case Hover(x=float(x), y=float(y)):
            await page.hover(x, y)
        case Type(id=None, selector=None):
            await page.type(action.text)
        case Press(id=None, selector=None):
            await page.key_press(action.key)
        case Scroll(id=None, selector=None):
            await page.scroll(640.0, 360.0, action.dx, action.dy)
        case Back():
            await page.go_back()
        case Forward():
            await page.go_forward()
        case Wait():
            await page.wait_for_timeout(int(action.ms))
        case _:
            raise ProviderError(
                "invalid_arguments",
                f"Stagehand can't do this: {action.to_json()}. Name an element by its id, or use words.",
            )


_OURS: Mapping[str, tuple[type[BaseAction], str]] = {
    "click": (Click, ""), "doubleClick": (Click, ""), "hover": (Hover, ""), "fill": (Fill, "text"),
    "type": (Type, "text"), "press": (Press, "key"), "selectOptionFromDropdown": (Select, "options"),
}  # fmt: skip
"""Our action by Stagehand's method, with the field that takes the method's argument."""


def suggested(actions: Iterable[Any], paths: Mapping[int, str]) -> tuple[BaseAction, ...]:
    """Convert Stagehand's suggestions to our actions. Suggestions without a counterpart are left out."""
    ids = {path: id for id, path in paths.items()}
    found = []
    for action in actions:
        id = ids.get(action.selector.removeprefix("xpath="))
        kind, field = _OURS.get(action.method or "", (None, ""))
        arguments = action.arguments or []
        if id is None or kind is None or (field and not arguments):
            continue
        values: dict[str, Any] = {"id": id, "reason": action.description}
        if field:
            values[field] = arguments[0]
        if action.method == "doubleClick":
            values["count"] = 2
        found.append(kind(**values))
    return tuple(found)
