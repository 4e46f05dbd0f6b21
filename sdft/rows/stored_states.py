"""Recorded states in place of episodes: the student samples an action at each state, which is not executed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from selfsurf.agents.llm.llm_agent import LLMAgent
from selfsurf.agents.play.job import Job, Result, Step, derived
from selfsurf.agents.play.ledger import EpisodeCounts
from selfsurf.browser_env import Outcome
from selfsurf.sdft.rollouts.generator import Batch, RolloutStats, Weights
from selfsurf.sdft.rows.stored import State


@dataclass(frozen=True)
class StateJob(Job):
    """A recorded state to act at."""

    place: int
    """Index of the state among those of a run."""


class StoredGenerator:
    """Generator of batches of single steps, with the agent's weights when a batch is collected.

    Args:
        agent: agent that acts.
        states: states of the run; a job contains the index of its state.
        most: maximum number of states in one call of the agent; None for the whole batch.
        demonstrate: whether the agent gets the recorded action.
    """

    ahead = 0

    def __init__(
        self, agent: LLMAgent, states: Sequence[State], most: int | None = None, *, demonstrate: bool = False
    ) -> None:
        self._agent = agent
        self._states = states
        self._most = most
        self._demonstrate = demonstrate
        self._tally = EpisodeCounts()
        self._version = 0
        self._asked: dict[int, tuple[Sequence[Job], int]] = {}

    def publish(self, version: int, weights: Weights) -> None:
        """Set the version of the weights, which the agent's model has already."""
        self._version = version

    def request(self, number: int, jobs: Sequence[Job], seed: int) -> None:
        """Store the request; the agent acts in `collect`."""
        self._asked[number] = jobs, seed

    def collect(self, number: int) -> Batch:
        """Return a batch whose episodes are one step each, with the recorded action as privileged action.

        The outcome is `stopped`, because the result of the student's action is unknown.
        """
        jobs, seed = self._asked[number]
        start = time.monotonic()
        size, results = self._most or len(jobs), []
        for first in range(0, len(jobs), size):
            results += self.taken(jobs[first : first + size], [derived(seed, first + row) for row in range(size)])
        seconds, tally = time.monotonic() - start, EpisodeCounts(asked=len(jobs), finished=len(jobs))
        self._tally += tally
        del self._asked[number]  # deleted last, so that a failed batch can be collected again
        return Batch(results, tally, seconds, waited=seconds)

    def taken(self, jobs: Sequence[Job], seeds: Sequence[int] | None = None) -> list[Result]:
        """Let the agent act at states in one call.

        Args:
            jobs: the states.
            seeds: seed of each sampled reply.
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
        """Drop a requested batch."""
        del self._asked[number]

    @property
    def books(self) -> RolloutStats:
        """Tally of the collected batches."""
        return RolloutStats(self._tally)
