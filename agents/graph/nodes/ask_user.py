"""Asks the user by the environment's action `ask_user` and continues with the answer, even in another process."""

from __future__ import annotations

from selfsurf.agents.graph.live import Live
from selfsurf.agents.graph.nodes.confirm import answer_to
from selfsurf.agents.graph.reasons import TerminalReason
from selfsurf.agents.graph.state import GraphState, ending
from selfsurf.browser_env import Observation

NEXT = ("observe", "END")

STOP = ("stop", "give up", "cancel", "quit")
"""Answers that end the run if the graph itself asked. The model's questions may give these words other meanings."""


def run(state: GraphState, live: Live) -> GraphState:
    """Ask the user the question in the state."""
    result = live.act({"action": "ask_user", "question": state["question"]})
    change: GraphState = {"step": state["step"] + 1, "planned": None, **answered(state, live.obs)}
    if result.get("over"):
        change |= {"terminal": result.get("terminal", ""), "terminal_detail": result.get("detail", ""), "stage": "done"}
    return change


def answered(state: GraphState, obs: Observation) -> GraphState:
    """Return the state changes due to the user's answer, even if another process asked the question."""
    said = answer_to(state["question"], obs)
    change: GraphState = {"answer": said or ""}
    if said is None:
        change["advice"] = [*state["advice"], obs["last_error"] or "The user did not answer."]
    elif state["planned"] is None and said.strip().rstrip(".!").casefold() in STOP:
        change |= ending(TerminalReason.GOAL_FAILED, f'the user said: "{said.strip()}"')
    return change


def route(state: GraphState) -> str:
    """Observe the page again, unless the run is done."""
    return "END" if state["stage"] == "done" else "observe"
