"""Has the model choose the next action, and records its intent.

The agent asks for many runs in one call (`agent.GraphAgent`), adding the briefing of `brief.py` to each prompt.
"""

from __future__ import annotations

from selfsurf.agents.graph import counters
from selfsurf.agents.graph.budgets import added
from selfsurf.agents.graph.hashes import name_of, step_key
from selfsurf.agents.graph.live import Live
from selfsurf.agents.graph.state import GraphState, Stage, extended
from selfsurf.browser_env import parse_action

NEXT = ("safety", "ask_user", "error_retry")


def run(state: GraphState, live: Live) -> GraphState:
    """Request the next action from the model."""
    plan = live.plan()
    tally, action = state["counters"], plan["action"]
    change: GraphState = {
        "planned": action,
        "spent": added(
            state["spent"], tokens=plan.get("tokens", 0), dollars=plan.get("dollars", 0.0), seconds=live.taken()
        ),
        "advice": [],
        "risk": None,
        "question": "",
    }
    if action is None:
        change["error"] = {"kind": plan["kind"], "text": plan["error"]}
    else:
        intent = plan.get("intent") or action.get("reason") or ""
        change |= {
            "error": None,
            "key": step_key(parse_action(action), live.obs, live.page),
            "name": name_of(parse_action(action), live.obs),
            "counters": counters.without(tally, "planner", "policy"),
            "intent_text": intent,
            "intent_history": extended(state["intent_history"], intent),
            "stage": Stage.DONE.value if action["action"] in ("finish", "infeasible") else state["stage"],
            "question": str(action.get("question", "")) if action["action"] == "ask_user" else "",
        }
    return change


def route(state: GraphState) -> str:
    """Judge the action, ask the model's question, or handle the error."""
    if state["error"] is not None or state["planned"] is None:
        return "error_retry"
    return "ask_user" if state["planned"]["action"] == "ask_user" else "safety"
