"""How an episode can end."""

from enum import StrEnum


class Outcome(StrEnum):
    """Why an episode is where it is. `info["outcome"]` is one of these."""

    RUNNING = "running"
    SOLVED = "solved"
    """The task's score says done, with full reward."""
    FAILED = "failed"
    """The task's score says done, or the agent finished, without full reward."""
    INFEASIBLE = "infeasible"
    """The agent declared that the goal can't be reached, and the task did not say otherwise."""
    TIMEOUT = "timeout"
    """The step limit was reached."""
    STOPPED = "stopped"
    """Ended without a verdict: a person stopped it, or there is no task to judge it."""
    ENV_ERROR = "env_error"
    """The infrastructure failed; nobody's policy is to blame."""

    @property
    def trainable(self) -> bool:
        """May a learner draw conclusions from an episode that ended so?"""
        return self not in (Outcome.ENV_ERROR, Outcome.STOPPED)
