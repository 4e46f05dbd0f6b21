"""Asks the user by the environment's action `ask_user` and continues with the answer, even in another process."""

from __future__ import annotations

from selfsurf.agents.graph.answers import answered
from selfsurf.agents.graph.live import Live
from selfsurf.agents.graph.state import GraphState

NEXT = ("observe", "END")


def run(state: GraphState, live: Live) -> GraphState:
    """Ask the user the question in the state."""
    result = live.act({"action": "ask_user", "question": state["question"]})
    change: GraphState = {"step": state["step"] + 1, "planned": None, **answered(state, live.obs)}
    if result.get("over"):
        change |= {"terminal": result.get("terminal", ""), "terminal_detail": result.get("detail", ""), "stage": "done"}
    return change


def route(state: GraphState) -> str:
    """Observe the page again, unless the run is done."""
    return "END" if state["stage"] == "done" else "observe"
