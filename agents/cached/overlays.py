"""Overlays that are not part of a flow: how they are detected, and dismissed without consenting to anything.

Only English button names are recognized, and the button that dismissed the same dialog in the recorded episode. Other
dialogs are left to the agent.
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
"""Minimum similarity of a button's name to the recorded dismiss button: one of three words may be new."""

_AGREED = re.compile(r"(?i)\W*(i )?(accept|agree|allow|ok|okay|understood|continue)\b.{0,30}")


def is_overlay(action: Action, seen: Observation, following: Action | None) -> bool:
    """Whether an action only dismissed an overlay that covered the next action's element."""
    id = getattr(action, "id", None)
    element = next((one for one in seen["elements"] if one["id"] == id), None)
    if action.name != "click" or element is None or id not in dialogs(seen["dom"]):
        return False
    if not (_AWAY.fullmatch(element["name"]) or _AGREED.fullmatch(element["name"])):
        return False
    next_id = getattr(following, "id", None)
    return any(one["id"] == next_id and "covered" in one["states"] for one in seen["elements"])


def way_of(action: Action, seen: Observation) -> dict[str, str]:
    """Return the dialog's outline line and the name of the button that dismissed it; empty if the button consents."""
    id = getattr(action, "id", None)
    line = dialogs(seen["dom"]).get(id, "") if isinstance(id, int) else ""
    name = next((one["name"] for one in seen["elements"] if one["id"] == id), "")
    return {line: name} if line and name and not _AGREED.match(name) else {}


def way_out(
    seen: Observation, *, known: Collection[str], dialogs_known: Collection[str], away: Mapping[str, str]
) -> Element | None:
    """Return the only button that dismisses a dialog unknown to the flow; None unless there is exactly one.

    Args:
        seen: the page.
        known: fingerprints of the elements on the flow's page.
        dialogs_known: lines of the dialogs that belong to the flow.
        away: buttons that dismissed dialogs in the recorded episode (`way_of`).
    """
    inside = dialogs(seen["dom"])
    found = [
        one for one in seen["elements"]
        if one["role"] in ("button", "link") and inside.get(one["id"], "") not in (*dialogs_known, "")
        and fingerprint(one) not in known and not {"covered", "disabled"} & {*one["states"]}
        and (_AWAY.fullmatch(one["name"]) or alike(one["name"], away.get(inside[one["id"]], "")) >= ALIKE)
    ]  # fmt: skip
    return found[0] if len(found) == 1 else None
