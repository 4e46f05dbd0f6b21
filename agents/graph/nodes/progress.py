"""Scores the last action's progress, and requests a question to the user when the run is stuck."""

from __future__ import annotations

from selfsurf.agents.graph import counters
from selfsurf.agents.graph.budgets import exhausted
from selfsurf.agents.graph.live import Live
from selfsurf.agents.graph.nodes.observe import seen
from selfsurf.agents.graph.scoring import score
from selfsurf.agents.graph.state import GraphState

NEXT = ("observe", "ask_user")

QUESTION = 'I am stuck on "{title}" with: {goal} What should I do? ("stop" ends the run.)'


def run(state: GraphState, live: Live) -> GraphState:
    """Score the last action, and prepare a question to the user after several steps without progress."""
    page = seen(state["goal"], live)
    gain, tally = score(state["before"], page), state["counters"]
    tally = counters.without(tally, "no_progress") if gain > 0 else counters.count(tally, "no_progress")
    change: GraphState = {
        "progress": round(state["progress"] + gain, 3),
        "counters": tally,
        "question": "",
        "planned": None,
    }
    may_ask = "ask_user" in live.kinds and not counters.exceeded(tally, "questions")
    may_ask = may_ask and not exhausted(live.budgets, state["step"], state["spent"])
    if counters.exceeded(tally, "no_progress") and may_ask:
        change["question"] = QUESTION.format(title=page["title"][:80], goal=state["goal"][:200])
        tally = counters.count(counters.without(tally, "no_progress"), "questions")
        change["counters"] = tally
    return change


def route(state: GraphState) -> str:
    """Observe again, or ask the user."""
    return "ask_user" if state["question"] else "observe"
