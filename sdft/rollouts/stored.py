"""Recorded states in the place of episodes: the student is asked what it would do there, and nothing is carried out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from selfsurf.agents.llm_agent import LLMAgent
from selfsurf.agents.play.job import Job, Result, Step, derived
from selfsurf.agents.play.ledger import Tally
from selfsurf.browser_env import Outcome
from selfsurf.sdft.rollouts.generator import Batch, Books, Weights
from selfsurf.sdft.rows.stored import State


@dataclass(frozen=True)
class StateJob(Job):
    """A recorded state to act at."""

    place: int
    """Of the state among those of a run."""


class StoredGenerator:
    """Makes batches of single steps, with the agent's weights as they are when a batch is collected.

    Args:
        agent: acts.
        states: those of the run; a job names its place among them.
        most: most states that the agent is asked about in one call; None: all of a batch.
        demonstrate: tell the agent what was done.
    """

    ahead = 0

    def __init__(
        self, agent: LLMAgent, states: Sequence[State], most: int | None = None, *, demonstrate: bool = False
    ) -> None:
        self._agent = agent
        self._states = states
        self._most = most
        self._demonstrate = demonstrate
        self._tally = Tally()
        self._version = 0
        self._asked: dict[int, tuple[Sequence[Job], int]] = {}

    def publish(self, version: int, weights: Weights) -> None:
        """As `Generator.publish`: the agent's model has them."""
        self._version = version

    def request(self, number: int, jobs: Sequence[Job], seed: int) -> None:
        """As `Generator.request`."""
        self._asked[number] = jobs, seed

    def collect(self, number: int) -> Batch:
        """As `Generator.collect`. An episode of a result is one step, whose privileged action is what was done there.

        It ended `stopped`: what the student would have come to there is not known.
        """
        jobs, seed = self._asked[number]
        start = time.monotonic()
        size, results = self._most or len(jobs), []
        for first in range(0, len(jobs), size):
            results += self.taken(jobs[first : first + size], [derived(seed, first + row) for row in range(size)])
        seconds, tally = time.monotonic() - start, Tally(asked=len(jobs), finished=len(jobs))
        self._tally += tally
        del self._asked[number]  # what raised before can be collected again
        return Batch(results, tally, seconds, waited=seconds)

    def taken(self, jobs: Sequence[Job], seeds: Sequence[int] | None = None) -> list[Result]:
        """Ask the agent about states in one call.

        Args:
            jobs: the states.
            seeds: for each, what the reply is drawn from.
        """
        states = [self._states[job.place] for job in jobs if isinstance(job, StateJob)]
        seen = [state.bring(self._agent, slot) for slot, state in enumerate(states)]
        views = [{"action": state.shown.to_dict()} for state in states]
        told = views if self._demonstrate else None
        decisions = self._agent.decide(seen, privileged=told, seeds=None if seeds is None else seeds[: len(jobs)])
        return [
            Result(
                job, str(Outcome.STOPPED), trainable=False, version=self._version, length=1,
                steps=[Step(obs, decision, view, 0.0, {}, obs)],
            )
            for job, obs, view, decision in zip(jobs, seen, views, decisions, strict=True)
        ]  # fmt: skip

    def forget(self, number: int) -> None:
        """As `Generator.forget`."""
        del self._asked[number]

    @property
    def books(self) -> Books:
        """As `Generator.books`."""
        return Books(self._tally)
