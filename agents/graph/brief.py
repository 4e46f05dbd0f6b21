"""What the planner is told of the run beside goal and page: stage, intents, candidates, tabs and events, advice."""

from __future__ import annotations

from selfsurf.agents.graph.classifiers import candidates, page_kind
from selfsurf.agents.graph.state import GraphState
from selfsurf.agents.prompt.page import label
from selfsurf.browser_env import Observation

STAGES = {
    "orient": "find out where you are",
    "context": "understand the page, and where what the goal needs may be",
    "locate": "act on what the goal names",
    "verify": "check whether all of the goal is reached",
    "done": "",
}

INTENTS, EVENTS, FOUND = 6, 4, 12
"""How many of the last are told."""


def brief(state: GraphState, obs: Observation, *, short: bool = False) -> str:
    """Return what the planner is told. Element ids in it are those of `obs`.

    Args:
        state: of the run.
        obs: the page.
        short: for a small model, which too many words lead astray: what went wrong only.
    """
    advice = " ".join(state["advice"])
    if short:
        return advice
    parts = [f"Stage: {state['stage']} ({STAGES[state['stage']]}); the page looks like: {page_kind(obs)}."]
    if intents := state["intent_history"][-INTENTS:]:
        parts.append("What you meant to do so far: " + "; ".join(map(_short, intents)) + ".")
    if best := candidates(state["goal"], obs):
        named = ", ".join(f"[{one['id']}] {label(one)}" for one in best)
        parts.append(f"Elements that the goal may mean: {named}.")
    earlier = [one for one in state["context_events"] if one not in obs["events"]]  # the prompt has those of now
    if events := [*state["tab_events"][-EVENTS:], *earlier[-EVENTS:]]:
        parts.append("Of late: " + "; ".join(map(_short, events)) + ".")
    if state["found"]:
        parts.append("Further down on this page: " + "; ".join(state["found"][:FOUND]) + ".")
    return " ".join([*parts, advice]).strip()


def _short(text: str) -> str:
    return " ".join(text.split())[:120].rstrip(".")
