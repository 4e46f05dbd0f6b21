"""Breaks a loop: bars the repeated action, advises the planner, adds a screenshot, and gives up after several loops."""

from __future__ import annotations

from selfsurf.agents.graph import counters
from selfsurf.agents.graph.live import Live
from selfsurf.agents.graph.reasons import TerminalReason
from selfsurf.agents.graph.state import GraphState, ending, extended

NEXT = ("goal_check",)

ADVICE = "You have done the same thing on the same page again and again, without effect ({intent}). It is barred now: \
do something else, such as scrolling, going back, or another element."


def run(state: GraphState, live: Live) -> GraphState:
    """Break a loop; a model that has seen no screenshot of the page is shown one."""
    if live.blind and live.asks_environment:
        live.query("screenshot")
    tally = counters.count(state["counters"], "mitigations")
    change: GraphState = {
        "counters": tally,
        "blocked": extended(state["blocked"], state["recent"][-1]),
        "recent": [],
        "loop_trigger": False,
        "advice": [*state["advice"], ADVICE.format(intent=state["intent_text"] or "no reason given")],
    }
    if counters.exceeded(tally, "mitigations"):
        change |= ending(TerminalReason.LOOP_STUCK, f"the same actions had no effect {tally['mitigations']} times")
    return change


def route(state: GraphState) -> str:
    """Continue with the goal check."""
    return "goal_check"
