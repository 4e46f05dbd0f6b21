"""Finds the element of a cached action on a page that may have changed, by comparing descriptions only.

An element is found by role and name, and distinguished from others by its place (`place`). A renamed element is found
in its old place if no other element has a similar name. An ambiguous match is refused: a wrong click costs more than a
model's call.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict

from selfsurf.agents.cached.place import ElementPlace, alike, places, words
from selfsurf.browser_env.observation import Element, Observation

LIKELY = 0.5
"""Minimum similarity of place for an element of the recorded role and name."""

COMPANY = 0.5
"""Minimum share of the recorded surroundings that must remain."""

MARGIN = 0.2
"""Minimum lead in similarity over the second-best candidate."""

RENAMED = 0.7
"""Minimum similarity of place for an element whose name is only similar to the recorded name."""

CHANGED = frozenset({
    "all", "also", "always", "any", "both", "copy", "don", "draft", "every", "everyone", "later", "never", "no", "not",
    "off", "other", "others", "permanently", "test", "un", "without",
})  # fmt: skip
"""Words whose addition or removal changes the meaning of a name."""

_FAMILIES = (
    frozenset({"textbox", "searchbox", "spinbutton"}), frozenset({"combobox", "listbox"}),
    frozenset({"button", "link", "menuitem"}),
)  # fmt: skip


class Target(BaseModel):
    """The description of the element that a recorded action refers to."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    role: str
    name: str
    """Name of the element, with parameters of the goal as `<param:0>`."""
    place: ElementPlace
    frame: str = ""
    """Address of the element's frame, without query; empty for the top frame."""
    checked: bool | None = None
    """Whether the element was checked before the action; None if it can't be checked."""
    alike: int = 1
    """Number of elements on the page with this role and name."""


class TargetMatch(NamedTuple):
    """The result of a search for an element."""

    element: Element | None
    healed: bool = False
    """Whether the element differs from its description."""
    why: str = ""
    """Why no element was found; empty otherwise."""


def target_of(element: Element, observation: Observation) -> Target:
    """Return the description of an element on a page."""
    return Target(
        role=element["role"], name=element["name"],
        place=places(observation["dom"]).get(element["id"], ElementPlace()),
        frame=bare(element["frame"]), checked=checked(element),
        alike=[_kind(one) for one in observation["elements"]].count(_kind(element)),
    )  # fmt: skip


def find(target: Target, observation: Observation, *, known: Collection[str], given: bool = False) -> TargetMatch:
    """Find an element by its description, or return why none was found.

    Args:
        target: the description, with the current goal's values.
        observation: the page.
        known: fingerprints of the elements on the recorded page; these can't be the element under a new name.
        given: whether the name contains a value of the goal, and therefore must match exactly.
    """
    spots = places(observation["dom"])
    there = [one for one in observation["elements"] if bare(one["frame"]) == target.frame and one["id"] in spots]
    same = [one for one in there if one["role"] == target.role and one["name"].strip() == target.name.strip()]
    if not same:  # a link may have become a button, or a name changed its case
        near = [one for one in there if _related(one["role"], target.role) and alike(one["name"], target.name) == 1]
        same = [one for one in near if _stands(target.place, spots[one["id"]])]
    if not same:
        return _renamed(target, there, spots, known, given=given)
    scored = sorted(((target.place.likeness(spots[one["id"]]), one) for one in same), key=lambda pair: -pair[0])
    likeness, best = scored[0]
    what = f'{target.role} "{target.name}"'
    if len(same) > 1 and likeness - scored[1][0] < MARGIN:
        return TargetMatch(None, why=f"{len(same)} elements match {what}, and their places are too similar.")
    spot = spots[best["id"]]
    by_goal = given and len(same) == 1 and target.place.landmarks[:1] == spot.landmarks[:1]
    if not by_goal and not _stands(target.place, spot):
        return TargetMatch(None, why=f"the only {what} is in another place, among other elements.")
    return TargetMatch(best, healed=likeness < 0.999 or best["role"] != target.role or best["name"] != target.name)


def _stands(place: ElementPlace, now: ElementPlace) -> bool:
    """Whether a place is similar enough to the recorded place."""
    return place.likeness(now) >= LIKELY and place.company(now) >= COMPANY


def fingerprint(element: Element) -> str:
    """Return a short hash of an element's role and name."""
    return hashlib.sha256("\n".join(_kind(element)).encode()).hexdigest()[:8]


def fingerprints(elements: Iterable[Element]) -> tuple[str, ...]:
    """Return the distinct fingerprints of a page's elements."""
    return tuple(sorted({fingerprint(one) for one in elements}))


def checked(element: Element) -> bool | None:
    """Return whether a checkbox, radio button or switch is checked; None for other elements."""
    return "checked" in element["states"] if element["role"] in ("checkbox", "radio", "switch") else None


def bare(url: str) -> str:
    """Return an address without query and fragment."""
    return url.partition("#")[0].partition("?")[0]


def origin(url: str) -> str:
    """Return the scheme and host of an address; only the scheme of an address without a host."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}" if parts.netloc else f"{parts.scheme}:"


def _renamed(
    target: Target, there: Sequence[Element], spots: dict[int, ElementPlace], known: Collection[str], *, given: bool
) -> TargetMatch:
    missing = TargetMatch(None, why=f'there is no {target.role} "{target.name}".')
    if given or not target.name:
        return missing
    scored = []
    for one in there:
        if one["role"] != target.role or fingerprint(one) in known:
            continue
        near = alike(one["name"], target.name)
        if near and not _another(target.name, one["name"]):
            scored.append((near * target.place.likeness(spots[one["id"]]), one))
    scored.sort(key=lambda pair: -pair[0])
    if not scored:
        return missing
    best, place = scored[0][1], spots[scored[0][1]["id"]]
    rival = scored[1][0] if len(scored) > 1 else 0.0
    if target.alike > 1 or target.place.likeness(place) < RENAMED or target.place.company(place) < COMPANY:
        return missing
    if scored[0][0] - rival < MARGIN:
        return TargetMatch(None, why=f'several elements have names similar to the {target.role} "{target.name}".')
    return TargetMatch(best, healed=True)


def _another(name: str, now: str) -> bool:
    """Whether two names differ in meaning: by more than two words, a number, or a word of `CHANGED`."""
    differ = words(name) ^ words(now)
    return len(differ) > 2 or bool(differ & CHANGED) or any(any(char.isdigit() for char in word) for word in differ)


def _related(role: str, other: str) -> bool:
    return role == other or any(role in family and other in family for family in _FAMILIES)


def _kind(element: Element) -> tuple[str, str]:
    return element["role"], element["name"].strip()
