"""What a trainer gets its episodes from: batches that are asked for by number and collected later."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

from selfsurf.agents.llm_agent import LLMAgent
from selfsurf.agents.play.job import Job, Result
from selfsurf.agents.play.ledger import Tally
from selfsurf.sdft.rollouts.local import Rollouts

if TYPE_CHECKING:
    import torch

Weights: TypeAlias = "Callable[[], Mapping[str, torch.Tensor]]"
"""Gives the tensors of the adapter that acts, by PEFT's names."""


class RolloutError(RuntimeError):
    """Rollouts can't be made at all. The message says what to do."""


@dataclass(frozen=True)
class Batch:
    """The episodes of one batch."""

    results: list[Result]
    """In the order of the jobs."""
    tally: Tally
    seconds: float = 0.0
    """Wall-clock from the first episode's begin to the last one's end."""
    waited: float = 0.0
    """Of those, how long `collect` had to wait."""
    workers_lost: int = 0
    """Browser and policy workers that were lost since the last batch was collected."""


@dataclass(frozen=True)
class Books:
    """What a generator has done so far. Worker figures stay 0 where episodes run in this process."""

    tally: Tally = field(default_factory=Tally)
    """Of the batches that were collected."""
    browsers_lost: int = 0
    browsers_replaced: int = 0
    """Of those, how many have another in their place that is ready. The rest is pending."""
    policies_lost: int = 0
    policies_replaced: int = 0
    weights_put: int = 0
    """Versions of the weights that were sent to workers, through Ray's object store; 0 without workers."""
    weight_bytes: int = 0
    """Of the last version."""
    driver_seconds: float = 0.0
    """Processor time of the thread that hands out and takes in."""
    processes: dict[int, int] = field(default_factory=dict)
    """The process ids of the browser workers, by number."""

    @property
    def lost(self) -> int:
        """Workers that were lost."""
        return self.browsers_lost + self.policies_lost


class Generator(Protocol):
    """Makes batches of episodes with the weights that were published last."""

    ahead: int
    """How many batches may be asked for before they are wanted. Their samples are as many versions old."""

    def publish(self, version: int, weights: Weights) -> None:
        """Put other weights in force for batches that are asked for from now on."""

    def request(self, number: int, jobs: Sequence[Job], seed: int) -> None:
        """Ask for a batch."""

    def collect(self, number: int) -> Batch:
        """Return a batch that was asked for, once.

        Raises:
            RolloutError: it can't be made.
        """

    def forget(self, number: int) -> None:
        """Drop a batch that was asked for: it will not be collected, and may be asked for again."""

    @property
    def books(self) -> Books:
        """What has been done so far."""


class LocalGenerator:
    """Makes a batch in this process when it is collected, with the agent's weights as they are then.

    Args:
        rollouts: the environments, which stay their owner's.
        agent: acts.
        lead: how likely the oracle is to begin an episode (`agents.play.player.Manner`).
        use: puts published weights into the agent's model; by default they are the model's own already.
    """

    ahead = 0

    def __init__(
        self,
        rollouts: Rollouts,
        agent: LLMAgent,
        lead: float = 0.0,
        use: Callable[[Weights], None] = lambda weights: None,
    ) -> None:
        self._rollouts = rollouts
        self._agent = agent
        self._lead = lead
        self._use = use
        self._tally = Tally()
        self._version = 0
        self._asked: dict[int, tuple[Sequence[Job], int]] = {}

    def publish(self, version: int, weights: Weights) -> None:
        """As `Generator.publish`."""
        self._use(weights)
        self._version = version

    def request(self, number: int, jobs: Sequence[Job], seed: int) -> None:
        """As `Generator.request`."""
        self._asked[number] = jobs, seed

    def collect(self, number: int) -> Batch:
        """As `Generator.collect`."""
        jobs, seed = self._asked[number]
        start, before = time.monotonic(), self._rollouts.tally
        results = self._rollouts.run(self._agent, jobs, seed=seed, version=self._version, lead=self._lead)
        seconds, tally = time.monotonic() - start, self._rollouts.tally - before
        self._tally += tally
        del self._asked[number]  # what raised before can be collected again
        return Batch(results, tally, seconds, waited=seconds)

    def forget(self, number: int) -> None:
        """As `Generator.forget`."""
        del self._asked[number]

    @property
    def books(self) -> Books:
        """As `Generator.books`."""
        return Books(self._tally)
