"""What a trainer gets its episodes from: batches that are asked for by number and collected later."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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


class LocalGenerator:
    """Makes a batch in this process when it is collected, with the agent's weights as they are then.

    Args:
        rollouts: the environments, which stay their owner's.
        agent: acts.
        lead: how likely the oracle is to begin an episode (`agents.play.player.Manner`).
    """

    ahead = 0

    def __init__(self, rollouts: Rollouts, agent: LLMAgent, lead: float = 0.0) -> None:
        self._rollouts = rollouts
        self._agent = agent
        self._lead = lead
        self._version = 0
        self._asked: dict[int, tuple[Sequence[Job], int]] = {}

    def publish(self, version: int, weights: Weights) -> None:
        """As `Generator.publish`; the weights are the agent's own, in this process."""
        self._version = version

    def request(self, number: int, jobs: Sequence[Job], seed: int) -> None:
        """As `Generator.request`."""
        self._asked[number] = jobs, seed

    def collect(self, number: int) -> Batch:
        """As `Generator.collect`."""
        jobs, seed = self._asked.pop(number)
        start, before = time.monotonic(), self._rollouts.tally
        results = self._rollouts.run(self._agent, jobs, seed=seed, version=self._version, lead=self._lead)
        seconds = time.monotonic() - start
        return Batch(results, self._rollouts.tally - before, seconds, waited=seconds)

    def forget(self, number: int) -> None:
        """As `Generator.forget`."""
        del self._asked[number]
