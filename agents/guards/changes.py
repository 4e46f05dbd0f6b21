"""What an agent's actions change on a page, told from what changes there by itself.

A part of a page that changes while nothing is done, such as a clock or a counter of visitors, is the page's own: from
then on its changes are no effect of an action. Every other change after an action counts as its effect, whatever it
looks like: a stepper for a time of day looks like a clock. Whether the focus moves counts only where a key moved it.
Knows nothing of guards, graphs or browsers.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfsurf.agents.reply.kinds import is_editable
from selfsurf.browser_env import Observation, Wait
from selfsurf.browser_env.observe.align import align
from selfsurf.browser_env.observe.outline import ELEMENT

IDLE = ("wait", "message", "ask_user")
"""Actions that touch nothing: what changes in such a step does so by itself."""

LONG_WAIT = 500
"""Milliseconds of a wait that a part must outlast unchanged not to be the page's own any more."""

KINDS, STEPS = 3, 4
"""A part that changes in every one of so many steps, by so many kinds of action, depends on none of them."""

CELL, RING = 100, 4
"""Pixels: the side of the squares in which a screenshot is compared, and the width of a focus ring."""


@dataclass(eq=False)
class _Note:
    """What the changes of one part of a page have shown so far."""

    is_own: bool = False
    """It changes by itself."""
    grows: bool = False
    """Parts are added or removed here by themselves."""
    steps: int = 0
    """Steps in a row that have changed it."""
    kinds: frozenset[str] = frozenset()
    """Of the actions of these steps."""


class Changes:
    """Follows a page through the observations of one episode, each given once and in order.

    Args:
        focus: whether moving the focus by a key counts as a change.
    """

    def __init__(self, *, focus: bool = True) -> None:
        self._focus = focus
        self._contents: list[Hashable] = []
        """The page's parts: each begins with its kind."""
        self._places: list[Hashable] = []
        """Where each part is; None for texts."""
        self._notes: dict[int, _Note] = {}
        """By the index of the part; parts without a note have not changed."""
        self._moving: set[int] = set()
        """Indices of parts whose place changes by itself."""
        self._seen: Observation | None = None
        """The last observation."""
        self._restless: NDArray[np.bool_] = np.zeros((0, 0), bool)
        """The cells of the screenshot that change by themselves."""
        self._redrawn = 0
        """How often an action has changed the screenshot alone."""
        self._page: Hashable = ()

    def see(self, obs: Observation) -> bool:
        """Take the page after an action, or the first one; return whether anything but the page's own has changed.

        The screenshot counts where nothing else has changed.
        """
        action = _action(obs)
        kind, idle = str(action["action"]), action["action"] in IDLE or bool(obs["last_error"])
        return self._take(obs, idle=idle, action=kind, rested=idle and action["ms"] >= LONG_WAIT)

    def look(self, obs: Observation) -> None:
        """Take the page as it is before the next action: what has changed since the last observation is its own."""
        self._take(obs, idle=True)

    @property
    def page(self) -> Hashable:
        """The page now, without what is its own, elements' ids and the focus; another one where it was redrawn."""
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
        """Return whether a cell of the screenshot has changed that does not change by itself."""
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
        """Follow each part to where it is now; return whether any has changed that was not the page's own."""
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
                if resized and (idle or own):  # the next one may come or go beside another part of the list
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
    """Whether parts come and go by themselves here."""
    return above.grows or any(note.grows for note in gap)


def _changed(note: _Note, *, idle: bool, action: str) -> _Note:
    """Return a part's note after one more change."""
    steps, kinds = note.steps + 1, note.kinds | {action}
    whatever_is_done = steps >= STEPS and len(kinds) >= KINDS
    return replace(note, is_own=note.is_own or idle or whatever_is_done, steps=steps, kinds=kinds)


def _action(obs: Observation) -> dict[str, Any]:
    """Return the last action, with the milliseconds that it waited; its kind is "" where the reply was no action."""
    try:
        action = json.loads(obs["last_action"])
        return {**action, "action": action["action"], "ms": float(action.get("ms", Wait().ms))}
    except (ValueError, TypeError, KeyError):
        return {"action": "", "ms": 0}


def _parts(obs: Observation) -> tuple[list[Hashable], list[Hashable]]:
    """Return a page's parts and their places: address, title and tabs, elements, words, other lines of the outline."""
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
    """Yield the boxes in which a screenshot is not compared.

    A caret blinks, and what is pointed at or gets the focus looks different. Where the same action is done again, the
    looks of its element are compared: mouse and focus are where they were.
    """
    target = _action(obs).get("id")
    for element in obs["elements"]:
        focused = "focused" in element["states"]
        if (focused and is_editable(element)) or (not again and (focused or element["id"] == target)):
            x, y, width, height = element["bbox"]
            rows = slice(max(0, int(y) - RING), max(0, int(y + height) + 1 + RING))
            yield rows, slice(max(0, int(x) - RING), max(0, int(x + width) + 1 + RING))
