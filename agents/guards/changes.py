"""Detection of the changes that an agent's actions cause on a page, as opposed to spontaneous changes.

A part of a page that changes while the agent does nothing, such as a clock or a visitor counter, changes spontaneously:
its later changes are not attributed to actions. Every other change after an action counts as the action's effect,
whatever its appearance: a stepper for the time of day looks like a clock. A moved focus counts only after a key press.
The module is independent of guards, graphs and browsers.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfsurf.agents.kinds import is_editable
from selfsurf.browser_env import Observation, Wait
from selfsurf.browser_env.observe.align import align
from selfsurf.browser_env.outline import ELEMENT

IDLE = ("wait", "message", "ask_user")
"""Actions that touch nothing on the page, so that changes in their steps are spontaneous."""

LONG_WAIT = 500
"""Milliseconds of waiting after which a part that stayed the same no longer counts as changing spontaneously."""

KINDS, STEPS = 3, 4
"""A part counts as changing spontaneously if it changes in `STEPS` steps in a row, with `KINDS` kinds of action."""

CELL, RING = 100, 4
"""Side of the squares in which screenshots are compared, and width of a focus ring, in pixels."""


@dataclass(eq=False)
class _Note:
    """The observed changes of one part of a page."""

    is_own: bool = False
    """Whether the part changes spontaneously."""
    grows: bool = False
    """Whether parts appear and disappear spontaneously next to this part."""
    steps: int = 0
    """Number of consecutive steps that changed the part."""
    kinds: frozenset[str] = frozenset()
    """Kinds of the actions in these steps."""


class Changes:
    """Change detector that follows a page through the observations of one episode, each given once and in order.

    Args:
        focus: whether moving the focus by a key counts as a change.
    """

    def __init__(self, *, focus: bool = True) -> None:
        self._focus = focus
        self._contents: list[Hashable] = []
        """The parts of the page; texts are strings, other parts are tuples that begin with their kind."""
        self._places: list[Hashable] = []
        """Bounding box and visibility of each part; None for parts other than elements."""
        self._notes: dict[int, _Note] = {}
        """Notes by index of the part; unchanged parts have no note."""
        self._moving: set[int] = set()
        """Indices of parts that move spontaneously."""
        self._seen: Observation | None = None
        """The last observation."""
        self._restless: NDArray[np.bool_] = np.zeros((0, 0), bool)
        """Mask of the screenshot's cells that change spontaneously."""
        self._redrawn = 0
        """Number of actions that changed only the screenshot."""
        self._page: Hashable = ()

    def see(self, obs: Observation) -> bool:
        """Compare the page after an action with the last one, and return whether the action may have changed it.

        Changes of parts that are known to change spontaneously don't count. The first page counts as changed. The
        screenshot matters only where nothing else has changed.
        """
        action = _action(obs)
        kind, idle = str(action["action"]), action["action"] in IDLE or bool(obs["last_error"])
        return self._take(obs, idle=idle, action=kind, rested=idle and action["ms"] >= LONG_WAIT)

    def look(self, obs: Observation) -> None:
        """Compare the page just before the next action with the last observation; all differences are spontaneous."""
        self._take(obs, idle=True)

    @property
    def page(self) -> Hashable:
        """Comparable page content without spontaneous changes, element ids and focus; changes with each redraw."""
        return self._page

    def _what_is_left(self) -> Hashable:
        kept = (at for at in range(len(self._contents)) if at not in self._notes or not self._notes[at].is_own)
        parts = tuple((self._contents[at], None if at in self._moving else self._places[at]) for at in kept)
        return self._redrawn, parts

    def _take(self, obs: Observation, *, idle: bool, action: str = "", rested: bool = False) -> bool:
        before, self._seen = self._seen, obs
        changed = before is None
        contents, places = _parts(obs)
        if contents != self._contents or places != self._places:
            changed |= self._match(contents, places, idle=idle, action=action, rested=rested)
        elif rested:
            self._notes, self._moving = {}, set()
        if before is not None:
            if self._focus and action == "press" and not idle:
                changed |= _focused(before) != _focused(obs)
            if self._draws(before, obs, idle=idle, rested=rested):
                self._redrawn += not (changed or idle)
                changed = True
        if changed or idle:
            self._page = self._what_is_left()
        return changed

    def _draws(self, before: Observation, now: Observation, *, idle: bool, rested: bool) -> bool:
        """Whether the screenshot changed in a cell without spontaneous changes."""
        if "screenshot" not in before or "screenshot" not in now:
            return False
        old, new = before["screenshot"], now["screenshot"]
        if old.shape != new.shape:
            return True
        differs = (old != new).any(axis=2)
        again = before["last_action"] == now["last_action"]
        for box in (*_hidden(before, again=again), *_hidden(now, again=again)):
            differs[box] = False
        rows, columns = (range(0, size, CELL) for size in differs.shape)
        cells = np.logical_or.reduceat(np.logical_or.reduceat(differs, rows, axis=0), columns, axis=1)
        if self._restless.shape != cells.shape:
            self._restless = np.zeros_like(cells)
        drawn = bool((cells & ~self._restless).any())
        if idle:
            self._restless = cells if rested else self._restless | cells
        return drawn

    def _match(
        self, contents: list[Hashable], places: list[Hashable], *, idle: bool, action: str, rested: bool
    ) -> bool:
        """Carry each part's note over to its new index, and return whether an action may have changed any part."""
        old, notes, moving, changed, pushed = self._notes, dict[int, _Note](), set[int](), False, False
        a = b = 0
        for i, j in [*align(self._contents, contents), (len(self._contents), len(contents))]:
            if a < i or b < j:
                gap = [old.get(at, _Note()) for at in range(a, i)]
                above = old.get(a - 1, _Note())
                resized = i - a != j - b
                own = _grown(gap, above) if resized else all(note.is_own for note in gap)
                changed |= not own
                pushed |= resized and own
                if resized and (idle or own):  # the next change of this list may occur next to another of its parts
                    notes.setdefault(b - 1, replace(above)).grows = True
                for at in range(b, j):
                    note = gap[at - b] if at - b < len(gap) else _Note(is_own=own, grows=own or idle)
                    notes[at] = _changed(note, idle=idle, action=action)
                moving |= {b + at - a for at in self._moving if a <= at < min(i, a + j - b)}
            if i < len(self._contents):
                if i in old and not rested and (old[i].is_own or old[i].grows):
                    notes.setdefault(j, old[i])
                if places[j] != self._places[i]:
                    changed |= i not in self._moving and not pushed
                    if idle or i in self._moving:
                        moving.add(j)
                elif i in self._moving and not rested:
                    moving.add(j)
            a, b = i + 1, j + 1
        self._contents, self._places, self._notes, self._moving = contents, places, notes, moving
        return changed


def _grown(gap: Sequence[_Note], above: _Note) -> bool:
    """Whether parts appear and disappear spontaneously between two matched parts of the page."""
    return above.grows or any(note.grows for note in gap)


def _changed(note: _Note, *, idle: bool, action: str) -> _Note:
    """Return a part's note, updated by one more change."""
    steps, kinds = note.steps + 1, note.kinds | {action}
    whatever_is_done = steps >= STEPS and len(kinds) >= KINDS
    return replace(note, is_own=note.is_own or idle or whatever_is_done, steps=steps, kinds=kinds)


def _action(obs: Observation) -> dict[str, Any]:
    """Return the last action with the milliseconds that it waited; its kind is "" if the reply was no valid action."""
    try:
        action = json.loads(obs["last_action"])
        return {**action, "action": action["action"], "ms": float(action.get("ms", Wait().ms))}
    except (ValueError, TypeError, KeyError):
        return {"action": "", "ms": 0}


def _parts(obs: Observation) -> tuple[list[Hashable], list[Hashable]]:
    """Return a page's parts and their places: address, title, tabs, elements, words and other lines of the outline."""
    tabs = tuple((tab["url"], tab["active"]) for tab in obs["tabs"])
    contents: list[Hashable] = [("url", obs["url"]), ("title", obs["title"]), ("tabs", tabs)]
    for element in obs["elements"]:
        states = tuple(state for state in element["states"] if state != "focused")
        contents.append(("element", element["role"], element["name"], element["value"], states, element["frame"]))
    places = [None] * 3 + [(element["bbox"], element["in_viewport"]) for element in obs["elements"]]
    contents += obs["page_text"].split()
    contents += [("line", row) for row in obs["dom"].split("\n") if not ELEMENT.match(row)]
    return contents, [*places, *[None] * (len(contents) - len(places))]


def _focused(obs: Observation) -> list[int]:
    """Return the ids of the elements that have the focus."""
    return [element["id"] for element in obs["elements"] if "focused" in element["states"]]


def _hidden(obs: Observation, *, again: bool) -> Iterator[tuple[slice, slice]]:
    """Yield the boxes in which screenshots are not compared.

    A caret blinks, and elements look different under the mouse or with the focus. If the same action is repeated, its
    element is compared after all, because mouse and focus haven't moved.
    """
    target = _action(obs).get("id")
    for element in obs["elements"]:
        focused = "focused" in element["states"]
        if (focused and is_editable(element)) or (not again and (focused or element["id"] == target)):
            x, y, width, height = element["bbox"]
            rows = slice(max(0, int(y) - RING), max(0, int(y + height) + 1 + RING))
            yield rows, slice(max(0, int(x) - RING), max(0, int(x + width) + 1 + RING))
