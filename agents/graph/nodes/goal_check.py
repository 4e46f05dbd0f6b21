"""Ends a run that is stuck or over budget. Success is claimed by the model only."""

from __future__ import annotations

from selfsurf.agents.graph.budgets import added, exhausted
from selfsurf.agents.graph.live import Live
from selfsurf.agents.graph.reasons import TerminalReason
from selfsurf.agents.graph.state import GraphState, ending

NEXT = ("planner", "END")

VERIFY = "The page says that something was done: check whether all of the goal is reached, and finish if it is."


def run(state: GraphState, live: Live) -> GraphState:
    """Check the budgets, and advise the planner to verify the goal if the page reports a success."""
    change: GraphState = {"spent": added(state["spent"], seconds=live.taken())}
    why = exhausted(live.budgets, state["step"], change["spent"])
    if why and not state["terminal"]:
        change |= ending(TerminalReason.BUDGET_EXHAUSTED, why)
    elif state["stage"] == "verify":
        change["advice"] = [*state["advice"], VERIFY]
    return change


def route(state: GraphState) -> str:
    """End the run or plan the next action."""
    return "END" if state["terminal"] else "planner"
