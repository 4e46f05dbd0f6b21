"""Summarizes the observation (page, tabs, events, loops), and scans a long page that doesn't mention the goal."""

from __future__ import annotations

from typing import Any

from selfsurf.agents.graph import counters
from selfsurf.agents.graph.classifiers import (
    candidates,
    covered,
    is_sparse,
    naming_first,
    page_kind,
    says_success,
)
from selfsurf.agents.graph.live import Live
from selfsurf.agents.graph.scoring import stage_of
from selfsurf.agents.graph.state import GraphState, PageSeen, extended
from selfsurf.browser_env import Observation
from selfsurf.browser_env.text import visible

NEXT = ("loop_mitigation", "goal_check")

SCANS = 2
"""Maximum number of scans of a page without a hit; a second scan may find content that loads late."""


def run(state: GraphState, live: Live) -> GraphState:
    """Summarize the observation, scanning the page if necessary."""
    obs, page = live.obs, seen(state["goal"], live)
    best = candidates(state["goal"], obs)
    change: GraphState = {
        "page": page,
        "tabs": [dict(tab) for tab in obs["tabs"]],
        "tab_events": extended(state["tab_events"], *tab_events(state["tabs"], obs)),
        "context_events": extended(state["context_events"], *obs["events"]),
        "stage": stage_of(state, page, candidates=bool(best)),
        "loop_trigger": counters.loops(state["recent"]),
        "found": [],
    }
    scans = state["scanned"].count(page["hash"])
    if live.scan and live.asks_environment and scans < SCANS and is_sparse(state["goal"], obs):
        change["found"], hits = naming_first(state["goal"], live.query("scan").get("lines", ()))
        change["scanned"] = extended(state["scanned"], *[page["hash"]] * (SCANS if hits else 1))
    return change


def route(state: GraphState) -> str:
    """Break a loop, or else check the goal."""
    return "loop_mitigation" if state["loop_trigger"] else "goal_check"


def seen(goal: str, live: Live) -> PageSeen:
    """Return the summary of the current page."""
    obs = live.obs
    return {
        "url": obs["url"], "title": visible(obs["title"]), "kind": page_kind(obs), "hash": live.page,
        "changed": live.changed, "covered": round(covered(goal, obs), 3), "success": says_success(obs),
    }  # fmt: skip


def tab_events(before: list[dict[str, Any]], obs: Observation) -> list[str]:
    """Return the tabs opened, closed and activated since the last observation."""
    if not before:
        return []
    old, new = [tab["url"] for tab in before], [tab["url"] for tab in obs["tabs"]]
    events = []
    if len(new) > len(old):
        events.append(f"opened: {new[-1]}")
    if len(new) < len(old):
        events.append(f"closed: {next((url for url in old if url not in new), old[-1])}")
    places = [next((place for place, tab in enumerate(tabs) if tab["active"]), 0) for tabs in (before, obs["tabs"])]
    if places[0] != places[1]:
        events.append(f"active: {new[places[1]] if new else ''}")
    return events
