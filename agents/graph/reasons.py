"""Why a run of the graph ended: one of four reasons, in one place. Knows nothing of the graph."""

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
    """Return `terminal_reason` and `terminal_type` as records hold them.

    The type is `success`, `failure` or `limit`; it is empty where the reason is none of the four.
    """
    return {"terminal_reason": reason, "terminal_type": _TYPES.get(reason, "")}


def normalized(outcome: str, claim: str = "") -> TerminalReason | None:
    """Return why a run ended.

    Args:
        outcome: the episode's (`browser_env.Outcome`). A task's verdict counts more than that the model calls the goal
            reached or not; but a run that was stuck or had used up a budget has ended for that, whatever it is worth:
            giving up may be what a task wants.
        claim: the reason that the graph gave, if any.

    Returns:
        None: it has not ended, somebody stopped it, or the infrastructure failed it: no reason of the agent's.
    """
    claimed = TerminalReason(claim) if claim else None
    if outcome in ("env_error", "running"):
        return None
    if claimed in _LIMITS or outcome == "stopped":  # stopped: no task judges that goal, or somebody has stopped it
        return claimed
    return _OF_OUTCOME.get(outcome)
