"""The state of a graph run: plain data that a checkpoint can store, without screenshots and pages."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, TypedDict

from selfsurf.agents.graph.classifiers import goal_kind, task_kind
from selfsurf.agents.graph.reasons import TerminalReason

KEPT = 40
"""Maximum number of entries of each history, because every checkpoint contains all of them."""


class Stage(StrEnum):
    """The stages of a run."""

    ORIENT = "orient"
    CONTEXT = "context"
    LOCATE = "locate"
    VERIFY = "verify"
    DONE = "done"


class PageSeen(TypedDict):
    """A summary of a page."""

    url: str
    title: str
    kind: str
    """Kind of the page (`classifiers.page_kind`)."""
    hash: str
    """Hash of the page (`live.Live.page`)."""
    changed: bool
    """Whether the last action changed the page."""
    covered: float
    """Share of the goal's words that the page shows, from 0 to 1."""
    success: bool
    """Whether the page reports a success."""


class Failure(TypedDict):
    """An error to be handled by the node `error_retry`."""

    kind: str
    """Kind of the error: `planner`, `policy`, `disallowed`, `timeout` or `execute`."""
    text: str


class GraphState(TypedDict, total=False):
    """The state shared by the nodes; each node returns the entries that it changes."""

    session: str
    goal: str
    goal_kind: str
    task_kind: str
    stage: str
    step: int
    """Number of actions sent to the environment."""
    page: PageSeen | None
    before: PageSeen | None
    """The page on which the last action was chosen."""
    tabs: list[dict[str, Any]]
    tab_events: list[str]
    context_events: list[str]
    intent_text: str
    intent_history: list[str]
    ux: list[str]
    """Narration for people; not read by any node."""
    counters: dict[str, int]
    spent: dict[str, float]
    """Tokens, seconds and dollars spent."""
    recent: list[str]
    """Keys of the last actions with their pages (`hashes.step_key`), for the detection of loops."""
    blocked: list[str]
    """Keys of actions barred after repeated attempts without effect."""
    granted: list[str]
    """Names of risky actions that the user has allowed (`hashes.name_of`) and that are not yet executed."""
    loop_trigger: bool
    planned: dict[str, Any] | None
    key: str
    """Key of the planned action (`hashes.step_key`)."""
    name: str
    """Name of the planned action (`hashes.name_of`)."""
    risk: dict[str, Any] | None
    question: str
    """The current or last question to the user."""
    answer: str
    """The user's answer to the question."""
    advice: list[str]
    """Advice for the planner's next prompt."""
    found: list[str]
    """Passages found by a scan beyond the page's outline."""
    scanned: list[str]
    """Hashes of scanned pages, one for each scan."""
    progress: float
    """Sum of the steps' scores."""
    error: Failure | None
    terminal: str
    """Value of a `reasons.TerminalReason`; empty while the run continues."""
    terminal_detail: str


def first_state(goal: str, session: str, *, open_ended: bool = False) -> GraphState:
    """Return the initial state of a run.

    Args:
        goal: the goal.
        session: label of the run in its records.
        open_ended: whether no task judges the goal.
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
    """Return the state change that ends a run."""
    return {"terminal": reason.value, "terminal_detail": detail, "stage": Stage.DONE.value}


def extended(entries: list[str], *more: str) -> list[str]:
    """Return a history with entries appended, limited to the latest `KEPT`."""
    return [*entries, *filter(None, more)][-KEPT:]
