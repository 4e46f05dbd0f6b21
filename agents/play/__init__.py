"""Playing episodes: jobs in, results out, each recorded as it happens. Independent of training and benchmark suites.

`Player` is the only loop. `Ledger` accounts for every requested episode: finished, masked, rerun. `Decider` asks any
agent; `Environments` keeps environments open between episodes.
"""

from selfsurf.agents.play.decide import Decider, make_decider
from selfsurf.agents.play.environments import Environments, Given
from selfsurf.agents.play.job import Ask, Job, Result, Step
from selfsurf.agents.play.ledger import Ledger, Tally
from selfsurf.agents.play.manner import Manner, Times, Watch
from selfsurf.agents.play.player import Player

__all__ = [
    "Ask", "Decider", "Environments", "Given", "Job", "Ledger", "Manner", "Player",
    "Result", "Step", "Tally", "Times", "Watch", "make_decider",
]  # fmt: skip
