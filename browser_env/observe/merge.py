"""Merging of several screens of one page: each element once, outline and text in reading order."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from selfsurf.browser_env.observation import Element
from selfsurf.browser_env.observe.align import align
from selfsurf.browser_env.outline import element_line, indent_of, parse_line

GONE = "gone"
"""State of a merged element that was on some screen and no longer exists."""

Key = tuple[int, str, str, int]
"""An element's key: id, role, name, and a number that increases when a list reuses the element for other content."""


@dataclass
class _Sighting:
    """Where an element was last seen (y on the screen and on the page), and its keys by the row that preceded it."""

    screen_y: float
    page_y: float
    key: Key
    contexts: dict[Hashable, Key] = field(default_factory=dict)


class Merger:
    """Merger of screens, which are added from the top of the page downwards."""

    def __init__(self) -> None:
        self._rows: list[str] = []
        self._keys: list[Hashable] = []
        self._text: list[str] = []
        self._elements: dict[Key, Element] = {}
        self._sightings: dict[tuple[int, str, str], _Sighting] = {}
        self._places: dict[Hashable, Key] = {}

    def add(self, elements: Sequence[Element], dom: str, page_text: str, offset: float) -> None:
        """Add a screen: its elements, whole outline and text, and its scroll offset."""
        rows = dom.split("\n")
        keys, seen = self._identify(elements, rows, offset)
        for key, element in seen.items():
            known = self._elements.get(key)
            if known is None or not known["in_viewport"]:  # elements are observed best on screen
                x, y, width, height = element["bbox"]
                self._elements[key] = {**element, "bbox": (x, y + offset, width, height)}
            self._places[_place(element, offset)] = key
        order = _union(self._keys, keys)
        known_rows, known_keys = self._rows, self._keys
        self._rows = [known_rows[i] if i is not None else rows[j] for i, j in order]
        self._keys = [known_keys[i] if i is not None else keys[j] for i, j in order]
        lines = page_text.split("\n")
        known_text = self._text
        self._text = [known_text[i] if i is not None else lines[j] for i, j in _union(known_text, lines)]

    def text(self) -> str:
        """Return the text of all screens."""
        return "\n".join(self._text)

    def result(self, elements: Sequence[Element], dom: str, offset: float) -> tuple[tuple[Element, ...], str]:
        """Return elements and outline of all screens. The arguments are the current page, scrolled to `offset`."""
        _, now = self._identify(elements, dom.split("\n"), offset)
        merged: dict[Key, Element] = {}
        rows = []
        for row, key in zip(self._rows, self._keys, strict=True):
            if not isinstance(key, tuple):
                rows.append(row)
            elif key not in merged:
                element = self._elements[key]
                here = now.get(key)
                states = element["states"] if here else (*element["states"], GONE)
                shown = bool(here and here["in_viewport"])
                id = here["id"] if here else element["id"]
                merged[key] = {**element, "id": id, "states": states, "in_viewport": shown}
                rows.append(" " * indent_of(row) + element_line(merged[key]))
        return tuple(merged.values()), "\n".join(rows)

    def _identify(
        self, elements: Sequence[Element], rows: list[str], offset: float
    ) -> tuple[list[Hashable], dict[Key, Element]]:
        """Return each row's key (an element's key, or the row itself), and the elements by key."""
        by_id = {element["id"]: element for element in elements}
        keys: list[Hashable] = []
        seen: dict[Key, Element] = {}
        for row in rows:
            id = parse_line(row).id
            element = None if id is None else by_id.get(id)
            if element is None or row.lstrip(" ") != element_line(element):
                keys.append(row)
                continue
            key = self._key(element, keys[-1] if keys else None, offset)
            keys.append(key)
            seen[key] = element
        return keys, seen

    def _key(self, element: Element, context: Hashable, offset: float) -> Key:
        """Return the element's key; a new key if a list has reused the element for other content.

        An element counts as reused if it has moved on the page, has not stayed in its place on the screen (as sticky
        elements do), and follows another row than before (unlike after a layout shift). A new element gets the key of
        an equal element at the same place on an earlier screen.
        """
        identity = (element["id"], element["role"], element["name"])
        screen_y, page_y = element["bbox"][1], element["bbox"][1] + offset
        last = self._sightings.get(identity)
        key: Key = (*identity, 0)
        contexts: dict[Hashable, Key] = {}
        if last is not None:
            contexts, key = last.contexts, last.key
            moved = abs(page_y - last.page_y) > 20 and abs(screen_y - last.screen_y) > 2
            if moved and context in contexts:
                key = contexts[context]
            elif moved:
                key = (*identity, len(contexts))
        if key not in self._elements:
            key = self._places.get(_place(element, offset), key)
        contexts[context] = key
        self._sightings[identity] = _Sighting(screen_y, page_y, key, contexts)
        return key


def _place(element: Element, offset: float) -> Hashable:
    x, y, width, height = element["bbox"]
    return element["role"], element["name"], round(x), round(y + offset), round(width), round(height)


def _union(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[tuple[int | None, int]]:
    """Merge two sequences into index pairs (old, new): old is None for a new item, new is -1 for an old item.

    Items found only in the old sequence precede items found only in the new one, since screens go downwards.
    """
    order: list[tuple[int | None, int]] = []
    a = b = 0
    for i, j in [*align(old, new), (len(old), len(new))]:
        order.extend((index, -1) for index in range(a, i))
        order.extend((None, index) for index in range(b, j))
        if i < len(old):
            order.append((i, j))
        a, b = i + 1, j + 1
    return order
