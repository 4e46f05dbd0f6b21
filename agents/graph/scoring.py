"""Scores of steps, and the stage of a run. Pure functions of page summaries."""

from __future__ import annotations

from selfsurf.agents.graph.state import GraphState, PageSeen, Stage

FAILED, SAME, CHANGED, ELSEWHERE, WORDS, SUCCESS = -0.3, -0.2, 0.1, 0.1, 0.4, 0.5
"""Scores of a failed action, an action without effect, a change, a new address, the appearance of all of the goal's
words, and the appearance of a success message."""


def score(before: PageSeen | None, after: PageSeen, error: str = "") -> float:
    """Return a step's progress score, from -0.3 to 1.1; above 0 for progress.

    Args:
        before: the page on which the action was chosen; None before the first.
        after: the current page.
        error: the action's error; empty if it succeeded.
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
    """Return the stage of a run on the current page."""
    if state["terminal"]:
        return Stage.DONE.value
    if page["kind"] in ("blank", "error") or state["page"] is None:
        return Stage.ORIENT.value
    if page["success"] and state["step"]:
        return Stage.VERIFY.value
    return (Stage.LOCATE if candidates else Stage.CONTEXT).value
