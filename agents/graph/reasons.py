"""The four reasons for which a graph run ends. Independent of the graph."""

from __future__ import annotations

from enum import StrEnum


class TerminalReason(StrEnum):
    """Why a run ended."""

    GOAL_SATISFIED = "goal_satisfied"
    GOAL_FAILED = "goal_failed"
    LOOP_STUCK = "loop_stuck"
    BUDGET_EXHAUSTED = "budget_exhausted"


_LIMITS = (TerminalReason.LOOP_STUCK, TerminalReason.BUDGET_EXHAUSTED)

_TYPES: dict[str, str] = {
    TerminalReason.GOAL_SATISFIED: "success", TerminalReason.GOAL_FAILED: "failure",
    TerminalReason.LOOP_STUCK: "limit", TerminalReason.BUDGET_EXHAUSTED: "limit",
}  # fmt: skip

_OF_OUTCOME = {
    "solved": TerminalReason.GOAL_SATISFIED, "failed": TerminalReason.GOAL_FAILED,
    "infeasible": TerminalReason.GOAL_FAILED, "timeout": TerminalReason.BUDGET_EXHAUSTED,
}  # fmt: skip


def terminal_fields(reason: str) -> dict[str, str]:
    """Return `terminal_reason` and `terminal_type`, the fields of episode records.

    The type is `success`, `failure` or `limit`; empty for any other reason.
    """
    return {"terminal_reason": reason, "terminal_type": _TYPES.get(reason, "")}


def normalized(outcome: str, claim: str = "") -> TerminalReason | None:
    """Return why a run ended, from its episode's outcome and the graph's own reason.

    Args:
        outcome: the episode's outcome (`browser_env.Outcome`). A task's verdict overrides the model's claim of success
            or failure, but not a loop or an exhausted budget: giving up may be what a task requires.
        claim: the graph's own reason; empty for none.

    Returns:
        None if the run has not ended, was stopped by somebody, or failed because of the infrastructure.
    """
    claimed = TerminalReason(claim) if claim else None
    if outcome in ("env_error", "running"):
        return None
    # "stopped" means that no task judges the goal, or that somebody stopped the episode
    if claimed in _LIMITS or outcome == "stopped":
        return claimed
    return _OF_OUTCOME.get(outcome)
