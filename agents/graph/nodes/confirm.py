"""Asks the user to allow a risky action, unless the environment asks by itself (`Safety(confirm=)`)."""

from __future__ import annotations

from selfsurf.agents.graph.answers import answer_to
from selfsurf.agents.graph.budgets import exhausted
from selfsurf.agents.graph.live import Live
from selfsurf.agents.graph.reasons import TerminalReason
from selfsurf.agents.graph.state import GraphState, ending, extended
from selfsurf.browser_env import parse_action
from selfsurf.browser_env.environment.confirm import confirmation_of
from selfsurf.browser_env.human_input import allows

NEXT = ("execute", "error_retry", "END")


def run(state: GraphState, live: Live) -> GraphState:
    """Ask the user to allow the planned action if it is risky and not yet allowed."""
    assert state["planned"] is not None
    risk, name = state["risk"], state["name"]
    if risk is None or risk.get("asks") or live.confirm == "auto" or name in state["granted"]:
        return {}
    # no budget would be left for the action itself
    if why := exhausted(live.budgets, state["step"] + 1, state["spent"]):
        return {**ending(TerminalReason.BUDGET_EXHAUSTED, why), "error": {"kind": "disallowed", "text": why}}
    question = confirmation_of(risk["why"], parse_action(state["planned"]))
    result = live.act({"action": "ask_user", "question": question})
    change: GraphState = {"step": state["step"] + 1, "question": question}
    if result.get("over"):
        end: GraphState = {"terminal": result.get("terminal", ""), "terminal_detail": result.get("detail", "")}
        return {**change, **end, "stage": "done", "planned": None}
    said = answer_to(question, live.obs)
    if said is not None and allows(said):
        change["granted"] = extended(state["granted"], name)
    else:
        why = live.obs["last_error"] or f'the user did not allow it, and said: "{said or ""}"'
        change["error"] = {"kind": "disallowed", "text": why}
    return change


def route(state: GraphState) -> str:
    """Execute an allowed action or handle a refusal; end if the episode ended with the question."""
    if state["error"] is not None:
        return "error_retry"
    return "END" if state["planned"] is None else "execute"
