"""Narration of a run for people: one line for each notable result of a node. Not read by any node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from selfsurf.agents.graph.state import GraphState
from selfsurf.agents.reply.compact import compact
from selfsurf.browser_env import parse_action


def narrated(node: str, state: GraphState) -> str:
    """Return a line on the result of a node; empty for nothing notable.

    Args:
        node: name of the node.
        state: the state after the node.
    """
    return _TOLD[node](state)


def _observed(state: Any) -> str:
    page = state["page"]
    scanned = f", {len(state['found'])} elements further down" if state["found"] else ""
    return f'I see "{page["title"][:80] or page["url"][:80]}" ({page["kind"]}{scanned}).'


def _planned(state: Any) -> str:
    if state["planned"] is None:
        return f"I could not decide: {state['error']['text'][:160]}"
    action = parse_action({**state["planned"], "reason": ""})
    return f"I will {compact(action)}" + (f": {state['intent_text'][:200]}" if state["intent_text"] else "")


def _judged(state: Any) -> str:
    if state["error"] is not None:
        return f"This is not allowed: {state['error']['text']}"
    return f"This is risky: {state['risk']['why']}" if state["risk"] else ""


def _failed(state: Any) -> str:
    return f"{state['error']['text'][:160]} " + ("I give up." if state["terminal"] else "I try again.")


def _progressed(state: Any) -> str:
    vain = state["counters"].get("no_progress", 0)
    return f"My last {vain} actions made no progress." if vain > 1 else ""


_TOLD: dict[str, Callable[[Any], str]] = {
    "observe": _observed,
    "loop_mitigation": lambda state: "I am going round in circles and will try something else.",
    "goal_check": lambda state: f"I stop: {state['terminal_detail']}." if state["terminal"] else "",
    "planner": _planned,
    "safety": _judged,
    "confirm": lambda state: f"This is not allowed: {state['error']['text']}" if state["error"] else "",
    "execute": lambda state: f"It did not work: {state['error']['text'][:160]}" if state["error"] else "",
    "progress": _progressed,
    "ask_user": lambda state: f'I asked: "{state["question"]}" The user said: "{state["answer"]}"',
    "error_retry": _failed,
}
