"""The planner's briefing, in addition to goal and page: stage, intents, candidate elements, tabs and events, advice."""

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
"""Maximum numbers of intents, of events and of scan results in a briefing."""


def brief(state: GraphState, obs: Observation, *, short: bool = False) -> str:
    """Return the planner's briefing on the page `obs`.

    Args:
        state: the run's state.
        obs: the page.
        short: return only the advice, for small models, which long prompts mislead.
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
    # the prompt already contains the current events
    earlier = [one for one in state["context_events"] if one not in obs["events"]]
    if events := [*state["tab_events"][-EVENTS:], *earlier[-EVENTS:]]:
        parts.append("Of late: " + "; ".join(map(_short, events)) + ".")
    if state["found"]:
        parts.append("Further down on this page: " + "; ".join(state["found"][:FOUND]) + ".")
    return " ".join([*parts, advice]).strip()


def _short(text: str) -> str:
    return " ".join(text.split())[:120].rstrip(".")
