"""What the graph knows of its run: plain data only, which a checkpoint can hold. Screenshots and pages stay outside."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, TypedDict

from selfsurf.agents.graph.classifiers import goal_kind, task_kind
from selfsurf.agents.graph.reasons import TerminalReason

KEPT = 40
"""Most entries of each history: a checkpoint holds all of them."""


class Stage(StrEnum):
    """How far a run has come."""

    ORIENT = "orient"
    CONTEXT = "context"
    LOCATE = "locate"
    VERIFY = "verify"
    DONE = "done"


class PageSeen(TypedDict):
    """What is kept of a page."""

    url: str
    title: str
    kind: str
    """`classifiers.page_kind`."""
    hash: str
    """`live.Live.page`."""
    changed: bool
    """Whether the action before changed anything."""
    covered: float
    """The part of the goal's words that the page shows, from 0 to 1."""
    success: bool
    """It says that something was done."""


class Failure(TypedDict):
    """What error_retry is to handle."""

    kind: str
    """`planner`, `policy`, `disallowed`, `timeout` or `execute`."""
    text: str


class GraphState(TypedDict, total=False):
    """The state that the nodes share; each returns what it changes."""

    session: str
    goal: str
    goal_kind: str
    task_kind: str
    stage: str
    step: int
    """Actions that the environment was given."""
    page: PageSeen | None
    before: PageSeen | None
    """The page on which the last action was chosen."""
    tabs: list[dict[str, Any]]
    tab_events: list[str]
    context_events: list[str]
    intent_text: str
    intent_history: list[str]
    ux: list[str]
    """Narration for people; no node looks at it."""
    counters: dict[str, int]
    spent: dict[str, float]
    """Tokens, seconds and dollars."""
    recent: list[str]
    """Keys of the last actions with their pages (`hashes.step_key`), for loops."""
    blocked: list[str]
    """Keys of what was tried in vain and is not to be done again."""
    granted: list[str]
    """Names of risky actions that the user has allowed (`hashes.name_of`), until they are done."""
    loop_trigger: bool
    planned: dict[str, Any] | None
    key: str
    """Of the planned action (`hashes.step_key`)."""
    name: str
    """Of the planned action (`hashes.name_of`)."""
    risk: dict[str, Any] | None
    question: str
    """What a person is asked, or was asked last."""
    answer: str
    """What the user said to it."""
    advice: list[str]
    """What the planner is told next."""
    found: list[str]
    """What a scan has found that the page's outline does not show."""
    scanned: list[str]
    """Hashes of pages that were scanned."""
    progress: float
    """The sum of the steps' scores."""
    error: Failure | None
    terminal: str
    """A `reasons.TerminalReason`, once the graph has one."""
    terminal_detail: str


def first_state(goal: str, session: str, *, open_ended: bool = False) -> GraphState:
    """Return the state that a run begins with.

    Args:
        goal: what is wanted.
        session: the label of the run in its records.
        open_ended: no task judges the goal.
    """
    return {
        "session": session, "goal": goal, "goal_kind": goal_kind(goal), "task_kind": task_kind(goal, open_ended),
        "stage": Stage.ORIENT.value, "step": 0, "page": None, "before": None, "tabs": [], "tab_events": [],
        "context_events": [], "intent_text": "", "intent_history": [], "ux": [], "counters": {}, "spent": {},
        "recent": [], "blocked": [], "granted": [], "loop_trigger": False, "planned": None, "key": "", "name": "",
        "risk": None, "question": "", "answer": "", "advice": [], "found": [], "scanned": [], "progress": 0.0,
        "error": None, "terminal": "", "terminal_detail": "",
    }  # fmt: skip


def ending(reason: TerminalReason, detail: str) -> GraphState:
    """Return the change that ends a run."""
    return {"terminal": reason.value, "terminal_detail": detail, "stage": Stage.DONE.value}


def extended(entries: list[str], *more: str) -> list[str]:
    """Return a history with more entries, the oldest dropped."""
    return [*entries, *filter(None, more)][-KEPT:]
