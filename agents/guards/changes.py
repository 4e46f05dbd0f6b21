"""What an agent's actions change on a page, told from what changes there by itself.

A part of a page that changes while nothing is done, such as a clock or a counter of visitors, is the page's own: from
then on its changes are no effect of an action. Every other change after an action counts as its effect, whatever it
looks like: a stepper for a time of day looks like a clock. Knows nothing of guards, graphs or browsers.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from selfsurf.browser_env import Observation, Wait
from selfsurf.browser_env.observe.align import align
from selfsurf.browser_env.observe.outline import ELEMENT

IDLE = ("wait", "message", "ask_user")
"""Actions that touch nothing: what changes in such a step does so by itself."""

LONG_WAIT = 500
"""Milliseconds of a wait that a part must outlast unchanged not to be the page's own any more."""

KINDS, STEPS = 3, 4
"""A part that changes in every one of so many steps, by so many kinds of action, depends on none of them."""


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
        focus: whether it counts which element has the focus.
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
        self._picture: int | None = None
        self._picture_moves = False

    def see(self, obs: Observation) -> bool:
        """Take the page after an action, or the first one; return whether anything but the page's own has changed.

        The screenshot counts where nothing else has changed.
        """
        action, ms = _action(obs["last_action"])
        idle = action in IDLE or bool(obs["last_error"])
        return self._take(obs, idle=idle, action=action, rested=idle and ms >= LONG_WAIT)

    def look(self, obs: Observation) -> None:
        """Take the page as it is before the next action: what has changed since the last observation is its own."""
        self._take(obs, idle=True)

    @property
    def page(self) -> Hashable:
        """The page now, without what is its own, elements' ids and the screenshot."""
        kept = (at for at in range(len(self._contents)) if at not in self._notes or not self._notes[at].is_own)
        return tuple((self._contents[at], None if at in self._moving else self._places[at]) for at in kept)

    def _take(self, obs: Observation, *, idle: bool, action: str = "", rested: bool = False) -> bool:
        first, before = not self._contents, self._contents
        contents, places = _parts(obs, focus=self._focus)
        changed = first
        if contents != before or places != self._places:
            changed |= self._match(contents, places, idle=idle, action=action, rested=rested)
        elif rested:
            self._notes, self._moving = {}, set()
        picture = _picture(obs)
        if picture != self._picture and None not in (picture, self._picture):
            changed |= not self._picture_moves
            self._picture_moves |= idle
        elif rested:
            self._picture_moves = False
        self._picture = picture
        return changed

    def _match(
        self, contents: list[Hashable], places: list[Hashable], *, idle: bool, action: str, rested: bool
    ) -> bool:
        """Follow each part to where it is now; return whether any has changed that was not the page's own."""
        old, notes, moving, changed = self._notes, dict[int, _Note](), set[int](), False
        a = b = 0
        for i, j in [*align(self._contents, contents), (len(self._contents), len(contents))]:
            if a < i or b < j:
                gap = [old.get(at, _Note()) for at in range(a, i)]
                above = old.get(a - 1, _Note())
                own = _grown(gap, above) if i - a != j - b else all(note.is_own for note in gap)
                changed |= not own
                if idle and i - a != j - b:
                    notes.setdefault(b - 1, replace(above)).grows = True
                for at in range(b, j):
                    note = gap[at - b] if at - b < len(gap) else _Note(is_own=own, grows=own or idle)
                    notes[at] = _changed(note, idle=idle, action=action)
                moving |= {b + at - a for at in self._moving if a <= at < min(i, a + j - b)}
            if i < len(self._contents):
                if i in old and not rested and (old[i].is_own or old[i].grows):
                    notes.setdefault(j, old[i])
                if places[j] != self._places[i]:
                    changed |= i not in self._moving
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


def _action(text: str) -> tuple[str, float]:
    """Return the kind of the last action, and the milliseconds that it waited."""
    try:
        action = json.loads(text)
        return str(action["action"]), float(action.get("ms", Wait().ms))
    except (ValueError, TypeError, KeyError):  # a reply that was no action
        return "", 0


def _parts(obs: Observation, *, focus: bool) -> tuple[list[Hashable], list[Hashable]]:
    """Return a page's parts and their places: address, title and tabs, elements, words, other lines of the outline."""
    tabs = tuple((tab["url"], tab["active"]) for tab in obs["tabs"])
    contents: list[Hashable] = [("url", obs["url"]), ("title", obs["title"]), ("tabs", tabs)]
    for element in obs["elements"]:
        states = tuple(state for state in element["states"] if focus or state != "focused")
        contents.append(("element", element["role"], element["name"], element["value"], states, element["frame"]))
    places = [None] * 3 + [(element["bbox"], element["in_viewport"]) for element in obs["elements"]]
    contents += obs["page_text"].split()
    contents += [("line", row) for row in obs["dom"].split("\n") if not ELEMENT.match(row)]
    return contents, [*places, *[None] * (len(contents) - len(places))]


def _picture(obs: Observation) -> int | None:
    """Return a sum of the screenshot without the element that has the focus, whose caret blinks."""
    if "screenshot" not in obs:
        return None
    pixels = obs["screenshot"]
    focused = [element["bbox"] for element in obs["elements"] if "focused" in element["states"]]
    if focused:
        pixels = pixels.copy()
    for x, y, width, height in focused:
        pixels[max(0, int(y)) : max(0, int(y + height) + 1), max(0, int(x)) : max(0, int(x + width) + 1)] = 0
    return zlib.crc32(pixels.tobytes())
