"""Handles errors: advises the planner and lets it retry, up to a limit for each kind of error."""

from __future__ import annotations

from selfsurf.agents.graph import counters
from selfsurf.agents.graph.budgets import exhausted
from selfsurf.agents.graph.live import Live
from selfsurf.agents.graph.nodes.safety import BARRED
from selfsurf.agents.graph.reasons import TerminalReason
from selfsurf.agents.graph.state import GraphState, ending

NEXT = ("observe", "planner", "END")

ADVICE = {
    "planner": "Your last reply held no action that could be read: {text}",
    "policy": "",
    "disallowed": "Your last action was not carried out: {text}. Do something else.",
    "timeout": "Your last action took too long: {text}",
    "execute": "",  # the prompt already reports the error
}


def run(state: GraphState, live: Live) -> GraphState:
    """Count the error and advise the planner; end the run at the error limit or without budget."""
    assert state["error"] is not None
    kind, text = state["error"]["kind"], state["error"]["text"]
    tally = counters.count(state["counters"], kind)
    if kind == "timeout":
        tally = counters.count(tally, "execute")
    change: GraphState = {"counters": tally, "planned": None}
    if advice := ADVICE[kind].format(text=text.rstrip(".")):
        change["advice"] = [*state["advice"], advice]
    if why := exhausted(live.budgets, state["step"], state["spent"]):
        change |= ending(TerminalReason.BUDGET_EXHAUSTED, why)
    elif not state["terminal"] and counters.exceeded(tally, kind):
        stuck = text == BARRED
        reason = TerminalReason.LOOP_STUCK if stuck else TerminalReason.GOAL_FAILED
        change |= ending(reason, f"{tally[kind]} times in a row: {text}")
    return change


def route(state: GraphState) -> str:
    """Plan again after a failed reply, observe again after a failed action, or end the run."""
    if state["terminal"]:
        return "END"
    assert state["error"] is not None
    return "planner" if state["error"]["kind"] in ("planner", "policy") else "observe"
