"""Outcomes of an episode."""

from enum import StrEnum


class Outcome(StrEnum):
    """The state or end of an episode, as in `info["outcome"]`."""

    RUNNING = "running"
    SOLVED = "solved"
    """The task's score is `done`, with full reward."""
    FAILED = "failed"
    """The task's score is `done`, or the agent finished, without full reward."""
    INFEASIBLE = "infeasible"
    """The agent declared the goal infeasible, and the task did not score it as solved."""
    TIMEOUT = "timeout"
    """The step limit was reached."""
    STOPPED = "stopped"
    """The episode ended without a verdict: a person stopped it, or no task judges it."""
    ENV_ERROR = "env_error"
    """The infrastructure failed; the policy is not to blame."""

    @property
    def trainable(self) -> bool:
        """Whether an episode with this outcome may be trained on."""
        return self not in (Outcome.ENV_ERROR, Outcome.STOPPED)
