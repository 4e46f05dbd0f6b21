"""Has the action carried out by whoever plays the episode, and takes in what came of it."""

from __future__ import annotations

from selfsurf.agents.graph import counters
from selfsurf.agents.graph.live import Live
from selfsurf.agents.graph.state import GraphState, extended

NEXT = ("progress", "error_retry", "END")


def run(state: GraphState, live: Live) -> GraphState:
    """Execute."""
    assert state["planned"] is not None
    result = live.act(state["planned"])
    change: GraphState = {"step": state["step"] + 1, "before": state["page"], "error": None}
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
    """Weigh what came of it, or handle the error."""
    if state["planned"] is None:
        return "END"
    return "progress" if state["error"] is None else "error_retry"


def failure_kind(error: str) -> str:
    """Return what kind of failure an action's error is: `disallowed`, `timeout` or `execute`."""
    said = error.lower()
    if "did not allow" in said or "not allowed" in said or "refused here" in said or "nobody is there to allow" in said:
        return "disallowed"
    return "timeout" if "did not answer" in said or "timed out" in said or "within" in said else "execute"
