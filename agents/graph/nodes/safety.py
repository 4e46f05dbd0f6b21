"""Judges whether the planned action is risky (by the environment) or barred (by the graph)."""

from __future__ import annotations

from dataclasses import asdict

from selfsurf.agents.graph.live import Live
from selfsurf.agents.graph.state import GraphState
from selfsurf.browser_env import parse_action
from selfsurf.browser_env.environment.confirm import target_of
from selfsurf.browser_env.safety.risk import assess, might_be_risky

NEXT = ("confirm", "error_retry")

BARRED = "this was done on this page again and again, without effect"


def run(state: GraphState, live: Live) -> GraphState:
    """Refuse an action that is barred or not offered; assess the risk of any other."""
    assert state["planned"] is not None
    action, element = parse_action(state["planned"]), target_of(parse_action(state["planned"]), live.obs)
    change: GraphState = {"error": None, "risk": None}
    if state["key"] in state["blocked"]:
        change["error"] = {"kind": "disallowed", "text": BARRED}
    elif live.kinds and action.name not in live.kinds:
        change["error"] = {"kind": "disallowed", "text": f"{action.name} is not offered here"}
    elif live.asks_environment and live.changed and repeats(state):
        change["risk"] = live.query("look", state["planned"]).get("risk")
    elif might_be_risky(action, element):
        if live.asks_environment:
            change["risk"] = live.query("risk", state["planned"]).get("risk")
        else:
            risk = assess(action, element)
            change["risk"] = None if risk is None else {**asdict(risk), "asks": False}
    return change


def repeats(state: GraphState) -> bool:
    """Whether the planned action repeats the last action, regardless of the page."""
    return bool(state["recent"]) and state["recent"][-1].partition(":")[2] == state["key"].partition(":")[2]


def route(state: GraphState) -> str:
    """Confirm the action, or handle the refusal."""
    return "confirm" if state["error"] is None else "error_retry"
