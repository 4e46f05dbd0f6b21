"""Why a run of the graph ended: one of four reasons, in one place. Knows nothing of the graph."""

from __future__ import annotations

from enum import StrEnum


class TerminalReason(StrEnum):
    """Why a run ended."""

    GOAL_SATISFIED = "goal_satisfied"
    GOAL_FAILED = "goal_failed"
    LOOP_STUCK = "loop_stuck"
    BUDGET_EXHAUSTED = "budget_exhausted"

    @property
    def type(self) -> str:
        """`success`, `failure` or `limit`."""
        return {"goal_satisfied": "success", "goal_failed": "failure"}.get(self.value, "limit")


_LIMITS = (TerminalReason.LOOP_STUCK, TerminalReason.BUDGET_EXHAUSTED)

_OF_OUTCOME = {
    "solved": TerminalReason.GOAL_SATISFIED, "failed": TerminalReason.GOAL_FAILED,
    "infeasible": TerminalReason.GOAL_FAILED, "timeout": TerminalReason.BUDGET_EXHAUSTED,
}  # fmt: skip


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
