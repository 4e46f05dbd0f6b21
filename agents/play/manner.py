"""How episodes are played, and who is told of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from selfsurf.agents.play.job import Ask, Step
from selfsurf.browser_env import Observation, Outcome


@dataclass(frozen=True)
class Manner:
    """How episodes are played."""

    demonstrate: bool = False
    """Show the agent the oracle's next action at every step."""
    lead: float = 0.0
    """Probability with which the oracle takes an episode's first step, and each further one after a step of its own:
    the agent goes on from there. Where there is no oracle the agent begins."""
    most: int | None = None
    """Most episodes that the agent is asked for in one call. With 1, what is sampled is the same to the last bit
    whatever is played beside it; else batches of another size may change last bits."""
    episode_timeout: float = math.inf
    """Seconds of a machine with a free core that an episode may take, waiting for the agent included, for a person
    not."""
    slow_agent: Literal[Outcome.TIMEOUT, Outcome.ENV_ERROR] = Outcome.ENV_ERROR
    """What an episode is that ran out of time in the agent: its failure, or that of the machine that its model is on.
    One that ran out of time in the environment is `env_error`."""
    agent_errors: Literal["raise", "fail"] = "raise"
    """What happens when the agent's own code raises: `turn` raises that, or the episode has failed, is not learned
    from, and keeps the traceback."""
    keep_steps: bool = True
    """Keep all steps in the result, rather than its totals only."""


class Watch:
    """Is told what happens, in the caller's thread. Override what is of interest."""

    def begun(self, ask: Ask) -> None:
        """An episode begins."""

    def opened(self, ask: Ask, observation: Observation) -> None:
        """Its page is there."""

    def acting(self, asks: Sequence[Ask]) -> None:
        """The agent is about to be asked for these episodes. A `Stop` that is raised ends them instead."""

    def acted(self) -> None:
        """The agent has answered, or failed."""

    def stepped(self, ask: Ask, step: Step) -> None:
        """A step has been made."""

    def waiting(self, ask: Ask, question: dict[str, str]) -> None:
        """An episode waits for a person (`info["waiting"]`): `Player.answer` goes on with it."""


@dataclass
class Times:
    """What a player's time went into, summed over its episodes, which went on at the same time."""

    episodes: int = 0
    steps: int = 0
    env_seconds: float = 0.0
    """In resets and steps."""
    agent_seconds: float = 0.0
    """From when an observation was there until its action was."""
