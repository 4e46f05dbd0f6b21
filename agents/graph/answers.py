"""Answers of the user to the graph's questions, read from the observation's messages."""

from __future__ import annotations

from selfsurf.agents.graph.reasons import TerminalReason
from selfsurf.agents.graph.state import GraphState, ending
from selfsurf.browser_env import Observation

STOP = ("stop", "give up", "cancel", "quit")
"""Answers that end the run if the graph itself asked. The model's questions may give these words other meanings."""


def answer_to(question: str, obs: Observation) -> str | None:
    """Return the user's answer to the last question; None without an answer or after another question."""
    messages = list(obs["messages"])
    if len(messages) < 2 or messages[-1]["role"] != "user" or messages[-2]["text"] != question:
        return None
    return messages[-1]["text"]


def answered(state: GraphState, obs: Observation) -> GraphState:
    """Return the state changes due to the user's answer, even if another process asked the question."""
    said = answer_to(state["question"], obs)
    change: GraphState = {"answer": said or ""}
    if said is None:
        change["advice"] = [*state["advice"], obs["last_error"] or "The user did not answer."]
    elif state["planned"] is None and said.strip().rstrip(".!").casefold() in STOP:
        change |= ending(TerminalReason.GOAL_FAILED, f'the user said: "{said.strip()}"')
    return change
