"""Options of playing episodes, and callbacks for progress."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from selfsurf.agents.play.job import EpisodeRequest, Step
from selfsurf.browser_env import Observation, Outcome


@dataclass(frozen=True)
class PlayOptions:
    """Options of playing episodes."""

    demonstrate: bool = False
    """Show the agent the oracle's next action at every step."""
    lead: float = 0.0
    """Probability that the oracle takes an episode's first step, and each further step after its own; the agent
    continues from there. Tasks without an oracle begin with the agent."""
    most: int | None = None
    """Maximum number of episodes in one call of the agent; None for no limit. With 1, samples are bit-identical
    whatever else is played; other batch sizes may change last bits."""
    episode_timeout: float = math.inf
    """Timeout of an episode in seconds of a machine with a free core, including waits for the agent, excluding waits
    for people."""
    slow_agent: Literal[Outcome.TIMEOUT, Outcome.ENV_ERROR] = Outcome.ENV_ERROR
    """Outcome of an episode that timed out in the agent: a failure of the agent, or of the machine that runs its model.
    A timeout in the environment is always `env_error`."""
    agent_errors: Literal["raise", "fail"] = "raise"
    """Handling of errors in the agent's own code: `raise` lets `turn` raise the error; `fail` marks the episode as
    failed, not trainable, with the traceback."""
    keep_steps: bool = True
    """Keep all steps in the result, rather than only its totals."""


class PlayerCallbacks:
    """Callbacks for progress, called in the caller's thread. Override as needed."""

    def begun(self, ask: EpisodeRequest) -> None:
        """Called when an episode begins."""

    def opened(self, ask: EpisodeRequest, observation: Observation) -> None:
        """Called when an episode's page is open."""

    def acting(self, asks: Sequence[EpisodeRequest]) -> None:
        """Called before the agent is asked for these episodes. Raising `Stop` ends them instead."""

    def acted(self) -> None:
        """Called when the agent has answered or failed."""

    def stepped(self, ask: EpisodeRequest, step: Step) -> None:
        """Called after each step."""

    def waiting(self, ask: EpisodeRequest, question: dict[str, str]) -> None:
        """Called when an episode waits for a person (`info["waiting"]`), until `Player.answer` passes the answer."""


@dataclass
class PlayerTimes:
    """Time spent by a player, summed over concurrent episodes."""

    episodes: int = 0
    steps: int = 0
    env_seconds: float = 0.0
    """Seconds in resets and steps."""
    agent_seconds: float = 0.0
    """Seconds from each observation to its action."""
