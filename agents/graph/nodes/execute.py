"""Has the player execute the planned action, and records the result."""

from __future__ import annotations

import re

from selfsurf.agents.graph import counters
from selfsurf.agents.graph.live import Live
from selfsurf.agents.graph.state import GraphState, extended

_REFUSED = re.compile(
    r"(?:The user did not allow this action|Nobody is there to allow this action|Actions like this are refused here) \("
    r"|\S+ was not opened: |'[^']*' may not be uploaded;"
)
_LATE = "The page did not load: Timeout"
"""Beginning of a page timeout's message. Only beginnings are matched, because messages may quote page content."""

NEXT = ("progress", "error_retry", "END")


def run(state: GraphState, live: Live) -> GraphState:
    """Execute the planned action."""
    assert state["planned"] is not None
    result = live.act(state["planned"])
    granted = [name for name in state["granted"] if name != state["name"]]  # permission is for one execution
    change: GraphState = {"step": state["step"] + 1, "before": state["page"], "error": None, "granted": granted}
    if result.get("over"):
        change |= {"terminal": result.get("terminal", ""), "terminal_detail": result.get("detail", ""), "stage": "done"}
    else:
        change["recent"] = extended(state["recent"], state["key"])
        error = live.obs["last_error"]
        if error:
            change["error"] = {"kind": failure_kind(error), "text": error}
        else:
            change["counters"] = counters.without(state["counters"], "execute", "timeout", "disallowed")
    over = bool(result.get("over"))
    change["planned"] = None if over else state["planned"]
    return change


def route(state: GraphState) -> str:
    """Evaluate the action's progress, handle its error, or end."""
    if state["planned"] is None:
        return "END"
    return "progress" if state["error"] is None else "error_retry"


def failure_kind(error: str) -> str:
    """Return the kind of an action's error: `disallowed`, `timeout` or `execute`."""
    if _REFUSED.match(error):
        return "disallowed"
    return "timeout" if error.startswith(_LATE) else "execute"
