"""Sources of a trainer's episodes: batches that are requested by number and collected later."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

from selfsurf.agents.llm.llm_agent import LLMAgent
from selfsurf.agents.play.job import Job, Result
from selfsurf.agents.play.ledger import EpisodeCounts
from selfsurf.sdft.rollouts.local import Rollouts

if TYPE_CHECKING:
    import torch

Weights: TypeAlias = "Callable[[], Mapping[str, torch.Tensor]]"
"""Function that returns the tensors of the acting adapter, by PEFT's names."""


class RolloutError(RuntimeError):
    """Rollouts can't be made at all. The message states the remedy."""


@dataclass(frozen=True)
class Batch:
    """The episodes of one batch."""

    results: list[Result]
    """Results of the episodes, in the order of the jobs."""
    tally: EpisodeCounts
    seconds: float = 0.0
    """Wall-clock seconds from the start of the first episode to the end of the last."""
    waited: float = 0.0
    """Wall-clock seconds that `collect` had to wait."""
    workers_lost: int = 0
    """Number of browser and policy workers lost since the last collected batch."""


@dataclass(frozen=True)
class RolloutStats:
    """Statistics of a generator. Worker figures stay 0 if episodes run in this process."""

    tally: EpisodeCounts = field(default_factory=EpisodeCounts)
    """Tally of the collected batches."""
    browsers_lost: int = 0
    browsers_replaced: int = 0
    """Number of lost browser workers whose replacement is ready. The other replacements are pending."""
    policies_lost: int = 0
    policies_replaced: int = 0
    weights_put: int = 0
    """Number of versions of the weights sent to workers through Ray's object store; 0 without workers."""
    weight_bytes: int = 0
    """Size of the last version of the weights, in bytes."""
    driver_seconds: float = 0.0
    """CPU seconds of the thread that distributes episodes and receives results."""
    processes: dict[int, int] = field(default_factory=dict)
    """Process ids of the browser workers, by worker number."""

    @property
    def lost(self) -> int:
        """Number of lost workers, browser and policy workers together."""
        return self.browsers_lost + self.policies_lost


class Generator(Protocol):
    """Interface of objects that make batches of episodes with the most recently published weights."""

    ahead: int
    """Number of batches that may be requested in advance. Their samples are that many versions old."""

    def publish(self, version: int, weights: Weights) -> None:
        """Use other weights for batches requested from now on."""

    def request(self, number: int, jobs: Sequence[Job], seed: int) -> None:
        """Request a batch."""

    def collect(self, number: int) -> Batch:
        """Wait for a requested batch and return it, once.

        Raises:
            RolloutError: the batch can't be made.
        """

    def forget(self, number: int) -> None:
        """Drop a requested batch. Its number may be requested again."""

    @property
    def books(self) -> RolloutStats:
        """Statistics so far."""


class LocalGenerator:
    """Generator that plays a batch in this process when it is collected, with the agent's weights at that time.

    Args:
        rollouts: environments of the episodes, closed by their owner.
        agent: agent that acts.
        lead: probability of each step that the oracle takes first (`agents.play.options.PlayOptions`).
        use: function that loads published weights into the agent's model; by default the model has them already.
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
        self._tally = EpisodeCounts()
        self._version = 0
        self._asked: dict[int, tuple[Sequence[Job], int]] = {}

    def publish(self, version: int, weights: Weights) -> None:
        """Load the weights into the agent's model."""
        self._use(weights)
        self._version = version

    def request(self, number: int, jobs: Sequence[Job], seed: int) -> None:
        """Store the request; episodes are played by `collect`."""
        self._asked[number] = jobs, seed

    def collect(self, number: int) -> Batch:
        """Play a requested batch and return it."""
        jobs, seed = self._asked[number]
        start, before = time.monotonic(), self._rollouts.tally
        results = self._rollouts.run(self._agent, jobs, seed=seed, version=self._version, lead=self._lead)
        seconds, tally = time.monotonic() - start, self._rollouts.tally - before
        self._tally += tally
        del self._asked[number]  # deleted last, so that a failed batch can be collected again
        return Batch(results, tally, seconds, waited=seconds)

    def forget(self, number: int) -> None:
        """Drop a requested batch."""
        del self._asked[number]

    @property
    def books(self) -> RolloutStats:
        """Tally of the collected batches."""
        return RolloutStats(self._tally)
