"""What lies over a page and is no part of a flow: how it is recognized, and how it is put away without agreeing to it.

Only words of English are known, and what put the same dialog away when the flow was learned. Other dialogs are left to
the agent.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from selfsurf.agents.cached.place import alike, dialogs
from selfsurf.agents.cached.target import fingerprint
from selfsurf.browser_env.actions import Action
from selfsurf.browser_env.observation import Element, Observation

_AWAY = re.compile(
    r"(?i)\W*(close|dismiss|got it|(no,? )?thanks|no,? thank you|not now|maybe later|later|skip|hide( this)?|"
    r"(reject|refuse|decline|deny)( all| optional)?( cookies)?|continue without.*|"
    r"(only )?(strictly )?(necessary|essential|required)( ones| cookies)?( only)?|[x×✕✖])\W*(this|it|dialog)?\W*"
)
ALIKE = 0.6
"""How much a button has to be called what put its dialog away before: of three words, one may be new."""

_AGREED = re.compile(r"(?i)\W*(i )?(accept|agree|allow|ok|okay|understood|continue)\b.{0,30}")


def is_overlay(action: Action, seen: Observation, following: Action | None) -> bool:
    """Whether an action only put something away that lay over what came next."""
    id = getattr(action, "id", None)
    element = next((one for one in seen["elements"] if one["id"] == id), None)
    if action.name != "click" or element is None or id not in dialogs(seen["dom"]):
        return False
    if not (_AWAY.fullmatch(element["name"]) or _AGREED.fullmatch(element["name"])):
        return False
    next_id = getattr(following, "id", None)
    return any(one["id"] == next_id and "covered" in one["states"] for one in seen["elements"])


def way_of(action: Action, seen: Observation) -> dict[str, str]:
    """Return the line of the dialog that an action put away, and the name of its button; none if that agreed to it."""
    id = getattr(action, "id", None)
    line = dialogs(seen["dom"]).get(id, "") if isinstance(id, int) else ""
    name = next((one["name"] for one in seen["elements"] if one["id"] == id), "")
    return {line: name} if line and name and not _AGREED.match(name) else {}


def way_out(
    seen: Observation, *, known: Collection[str], dialogs_known: Collection[str], away: Mapping[str, str]
) -> Element | None:
    """Return the only button that puts a dialog away which the flow doesn't know; None if there is none.

    Args:
        seen: the page.
        known: fingerprints of the elements that the flow knows on it.
        dialogs_known: lines of the dialogs that belong to the flow.
        away: what put a dialog away when the flow was learned (`way_of`).
    """
    inside = dialogs(seen["dom"])
    found = [
        one for one in seen["elements"]
        if one["role"] in ("button", "link") and inside.get(one["id"], "") not in (*dialogs_known, "")
        and fingerprint(one) not in known and not {"covered", "disabled"} & {*one["states"]}
        and (_AWAY.fullmatch(one["name"]) or alike(one["name"], away.get(inside[one["id"]], "")) >= ALIKE)
    ]  # fmt: skip
    return found[0] if len(found) == 1 else None
