"""Playing episodes: jobs in, results out, each recorded as it happens. Independent of training and benchmark suites.

`Player` is the only loop. `Ledger` accounts for every requested episode: finished, masked, rerun. `AgentAdapter` asks
any agent; `Environments` keeps environments open between episodes.
"""

from selfsurf.agents.play.agent_adapter import AgentAdapter, make_decider
from selfsurf.agents.play.environments import Environments, SingleEnvironment
from selfsurf.agents.play.job import EpisodeRequest, Job, Result, Step
from selfsurf.agents.play.ledger import EpisodeCounts, Ledger
from selfsurf.agents.play.options import PlayerCallbacks, PlayerTimes, PlayOptions
from selfsurf.agents.play.player import Player

__all__ = [
    "AgentAdapter",
    "Environments",
    "EpisodeCounts",
    "EpisodeRequest",
    "Job",
    "Ledger",
    "PlayOptions",
    "Player",
    "PlayerCallbacks",
    "PlayerTimes",
    "Result",
    "SingleEnvironment",
    "Step",
    "make_decider",
]  # fmt: skip
