"""Finds the element of a cached action on a page that may have changed, or refuses. Pure: it compares descriptions.

An element is found by role and name, and told from others like it by its place (`place`). One that was only renamed is
found where it stood, if nothing else has nearly its name. In doubt none is: a wrong click costs more than a model's
call.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict

from selfsurf.agents.cached.place import Place, alike, places, words
from selfsurf.browser_env.observation import Element, Observation

LIKELY = 0.5
"""Likeness of its place from which on the only element of a role and a name is the recorded one."""

COMPANY = 0.5
"""The least share of what stood around it that still does."""

MARGIN = 0.2
"""How much liker its place must be than that of any other of the same role and name."""

RENAMED = 0.7
"""Likeness of its place from which on an element with nearly the recorded name can be the recorded one."""

CHANGED = frozenset({
    "all", "also", "always", "any", "both", "copy", "don", "draft", "every", "everyone", "later", "never", "no", "not",
    "off", "other", "others", "permanently", "test", "un", "without",
})  # fmt: skip
"""Words that make another thing of a name."""

_FAMILIES = (
    frozenset({"textbox", "searchbox", "spinbutton"}), frozenset({"combobox", "listbox"}),
    frozenset({"button", "link", "menuitem"}),
)  # fmt: skip


class Target(BaseModel):
    """What is known of an element that an action was done to."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    role: str
    name: str
    """With parameters of the goal in it as `<param:1>`."""
    place: Place
    frame: str = ""
    """Address of its frame, without query; empty for the top one."""
    checked: bool | None = None
    """Whether it was, before the action; None for what can't be."""
    alike: int = 1
    """How many elements of the page had its role and name."""


class Found(NamedTuple):
    """What a search has found."""

    element: Element | None
    healed: bool = False
    """Whether anything about it has changed."""
    why: str = ""
    """Why it was refused."""


def target_of(element: Element, observation: Observation) -> Target:
    """Describe an element of a page."""
    return Target(
        role=element["role"], name=element["name"],
        place=places(observation["dom"]).get(element["id"], Place()),
        frame=bare(element["frame"]), checked=checked(element),
        alike=[_kind(one) for one in observation["elements"]].count(_kind(element)),
    )  # fmt: skip


def find(target: Target, observation: Observation, *, known: Collection[str], given: bool = False) -> Found:
    """Find an element, or say why none is.

    Args:
        target: what it was, with the values of this goal in it.
        observation: the page.
        known: the fingerprints of the elements of the page that it was recorded on. One of these with another name is
            another element.
        given: its name comes from the goal: then it has this name and no other.
    """
    spots = places(observation["dom"])
    there = [one for one in observation["elements"] if bare(one["frame"]) == target.frame and one["id"] in spots]
    same = [one for one in there if one["role"] == target.role and one["name"].strip() == target.name.strip()]
    if not same:  # a link may have become a button, or a name be written otherwise
        near = [one for one in there if _related(one["role"], target.role) and alike(one["name"], target.name) == 1]
        same = [one for one in near if _stands(target.place, spots[one["id"]])]
    if not same:
        return _renamed(target, there, spots, known, given=given)
    scored = sorted(((target.place.likeness(spots[one["id"]]), one) for one in same), key=lambda pair: -pair[0])
    likeness, best = scored[0]
    what = f'{target.role} "{target.name}"'
    if len(same) > 1 and likeness - scored[1][0] < MARGIN:
        return Found(None, why=f"{len(same)} elements are a {what} in places too much alike.")
    spot = spots[best["id"]]
    by_goal = given and len(same) == 1 and target.place.landmarks[:1] == spot.landmarks[:1]
    if not by_goal and not _stands(target.place, spot):
        return Found(None, why=f"the only {what} stands elsewhere, among other things.")
    return Found(best, healed=likeness < 0.999 or best["role"] != target.role or best["name"] != target.name)


def _stands(place: Place, now: Place) -> bool:
    """Whether an element of the right name stands where it did, as far as can be told."""
    return place.likeness(now) >= LIKELY and place.company(now) >= COMPANY


def fingerprint(element: Element) -> str:
    """Return a short hash of an element's role and name."""
    return hashlib.sha256("\n".join(_kind(element)).encode()).hexdigest()[:8]


def fingerprints(elements: Iterable[Element]) -> tuple[str, ...]:
    """Return those of a page's elements, each once."""
    return tuple(sorted({fingerprint(one) for one in elements}))


def checked(element: Element) -> bool | None:
    """Return whether a checkbox, radio button or switch is checked; None for other elements."""
    return "checked" in element["states"] if element["role"] in ("checkbox", "radio", "switch") else None


def bare(url: str) -> str:
    """Return an address without query and fragment."""
    return url.partition("#")[0].partition("?")[0]


def origin(url: str) -> str:
    """Return an address's scheme and host; of one without a host only the scheme."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}" if parts.netloc else f"{parts.scheme}:"


def _renamed(
    target: Target, there: Sequence[Element], spots: dict[int, Place], known: Collection[str], *, given: bool
) -> Found:
    missing = Found(None, why=f'there is no {target.role} "{target.name}".')
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
        return Found(None, why=f'several elements have nearly the name of the {target.role} "{target.name}".')
    return Found(best, healed=True)


def _another(name: str, now: str) -> bool:
    """Whether a name says something else by a word or two more or less."""
    differ = words(name) ^ words(now)
    return len(differ) > 2 or bool(differ & CHANGED) or any(any(char.isdigit() for char in word) for word in differ)


def _related(role: str, other: str) -> bool:
    return role == other or any(role in family and other in family for family in _FAMILIES)


def _kind(element: Element) -> tuple[str, str]:
    return element["role"], element["name"].strip()
