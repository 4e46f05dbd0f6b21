"""How an episode can end."""

from enum import StrEnum


class Outcome(StrEnum):
    """The state or end of an episode; `info["outcome"]` is one of these."""

    RUNNING = "running"
    SOLVED = "solved"
    """The task's score says done, with full reward."""
    FAILED = "failed"
    """The task's score says done, or the agent finished, without full reward."""
    INFEASIBLE = "infeasible"
    """The agent declared the goal infeasible, and the task did not score it as solved."""
    TIMEOUT = "timeout"
    """The step limit was reached."""
    STOPPED = "stopped"
    """Ended without a verdict: a person stopped it, or no task judges it."""
    ENV_ERROR = "env_error"
    """The infrastructure failed; the policy is not to blame."""

    @property
    def trainable(self) -> bool:
        """May one learn from an episode with this outcome?"""
        return self not in (Outcome.ENV_ERROR, Outcome.STOPPED)
