"""How much a step has brought, and at which stage a run is. Pure functions over what is kept of pages."""

from __future__ import annotations

from selfsurf.agents.graph.state import GraphState, PageSeen, Stage

FAILED, SAME, CHANGED, ELSEWHERE, WORDS, SUCCESS = -0.3, -0.2, 0.1, 0.1, 0.4, 0.5
"""What an action is worth that failed or changed nothing, a change, another address, all of the goal's words coming
into view, and a page that says that something was done."""


def score(before: PageSeen | None, after: PageSeen, error: str = "") -> float:
    """Return how much a step has brought, from -0.7 to 1.1; 0 and less is none.

    Args:
        before: the page on which it was chosen.
        after: the page now.
        error: why it did not work; empty if it did.
    """
    if error:
        return FAILED
    if before is None:
        return CHANGED
    if not after["changed"]:
        return SAME
    value = CHANGED + WORDS * (after["covered"] - before["covered"])
    value += ELSEWHERE * (before["url"] != after["url"])
    value += SUCCESS * (after["success"] and not before["success"])
    return round(value, 3)


def stage_of(state: GraphState, page: PageSeen, *, candidates: bool) -> str:
    """Return the stage of a run on the page now."""
    if state["terminal"]:
        return Stage.DONE.value
    if page["kind"] in ("blank", "error") or state["page"] is None:
        return Stage.ORIENT.value
    if page["success"] and state["step"]:
        return Stage.VERIFY.value
    return (Stage.LOCATE if candidates else Stage.CONTEXT).value
