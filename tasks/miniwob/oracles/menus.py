"""Oracles of tasks with menus, accordions, trees and lists, whose items must be opened first."""

from __future__ import annotations

import re
from itertools import pairwise

from selfsurf.browser_env import Action, Element, Hover, Observation, Select, Wait
from selfsurf.tasks.miniwob.oracles.base import click, elements, oracle, quoted, said, submit

ICONS = {
    "disk": "Save", "seek-start": "Prev", "stop": "Stop", "play": "Play", "seek-end": "Next", "zoomin": "Zoom In",
    "zoomout": "Zoom Out",
}  # fmt: skip
"""Item names of a media player's icons, by icon."""


@oracle("click-collapsible-2", "click-collapsible-2-nodelay")
def click_collapsible_2(obs: Observation) -> Action | None:
    """Click the link if it is in the open section; otherwise open the next section, in a cycle."""
    name = quoted(obs["goal"])[0]
    target = [e for e in elements(obs, "generic") if e["name"] == name]
    if target:
        return click(target, f'The link "{name}" is in this section.')
    sections = elements(obs, "tab")
    opened = next((i for i, section in enumerate(sections) if "expanded" in section["states"]), -1)
    following = sections[(opened + 1) % len(sections) :] if sections else []
    return click(following, f'The link "{name}" is not in sight, so the next section is worth a look.')


@oracle("click-menu")
def click_menu(obs: Observation) -> Action | None:
    """Open the submenus on the path by hovering, because a click would select them, then click the last item."""
    *way, last = obs["goal"].removeprefix("Select ").split(">")
    target = elements(obs, "menuitem", last)
    if target:
        return click(target, f'"{last}" is the item at the end of the path.')
    seen = [item for name in reversed(way) for item in elements(obs, "menuitem", name)]
    if not seen:
        return None
    return _open_submenu(obs, seen[0], last)


def _open_submenu(obs: Observation, item: Element, wanted: str) -> Action:
    """Move the mouse over the item and wait until its submenu opens."""
    if obs["last_action"] == Hover(id=item["id"]).to_json():
        return Wait(ms=400, reason=f'The mouse is over "{item["name"]}", whose submenu opens after a moment.')
    return Hover(id=item["id"], reason=f'"{wanted}" is below "{item["name"]}", whose submenu opens under the mouse.')


@oracle("click-menu-2")
def click_menu_2(obs: Observation) -> Action | None:
    """Open the menu, and the submenu Playback if it contains the item, then click the item."""
    named = quoted(obs["goal"])[1:]
    icon = re.search(r'with the icon "([\w-]+)" icon', obs["dom"])
    name = named[0] if named else ICONS[icon.group(1)] if icon else ""
    meant = "the goal names it" if named else "its icon is the one in the goal"
    target = elements(obs, "menuitem", name)
    if target:
        return click(target, f'The item is "{name}", since {meant}.')
    playback = elements(obs, "menuitem", "Playback")
    if playback:
        return _open_submenu(obs, playback[0], name)
    return click(elements(obs, "button", "Menu"), f'"{name}" is in the menu, which must be opened first.')


@oracle("click-pie", "click-pie-nodelay")
def click_pie(obs: Observation) -> Action | None:
    """Open the pie with its plus, then click the slice, which precedes its label.

    Labels themselves are unreliable: they are redrawn under the mouse, so that a click on them may be lost.
    """
    name = quoted(obs["goal"])[0]
    shown = elements(obs, "generic")
    slices = [part for part, label in pairwise(shown) if label["name"] == name and "clipped" not in part["states"]]
    if slices:
        return click(slices, f'The pie is unfolded, and this is the slice of "{name}".')
    return click(elements(obs, "generic", "+"), f'The item "{name}" is folded away; the plus unfolds the menu.')


@oracle("click-scroll-list")
def click_scroll_list(obs: Observation) -> Action | None:
    """Choose all options at once, then submit."""
    listed = said(obs, r"^Select (.*) from the scroll list")
    for box in elements(obs, "listbox"):
        wanted = tuple(option for option in box["options"] if option in listed.split(", "))
        if box["value"] != ", ".join(wanted):
            return Select(id=box["id"], options=wanted, reason=f"{listed} must be chosen in the list first.")
    return submit(obs, f"{listed} and nothing else is chosen, so Submit comes next.")


@oracle("navigate-tree")
def navigate_tree(obs: Observation) -> Action | None:
    """Click the name if it is visible; otherwise open the next closed folder, recognized by its handle."""
    name = quoted(obs["goal"])[0]
    target = [e for e in elements(obs) if e["name"] == name and e["role"] in ("generic", "listitem")]
    if target:
        return click(target, f'This is "{name}".')
    closed = [label for handle, label in pairwise(elements(obs, "generic")) if "expandable-hitarea" in handle["name"]]
    return (
        click(closed, f'"{name}" is not in sight, and the folder "{closed[0]["name"]}" is closed.') if closed else None
    )
