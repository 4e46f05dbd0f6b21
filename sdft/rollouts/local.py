"""Rollouts in this process: the synchronous face, for training, evaluation and the demonstration."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from selfsurf.agents.llm_agent import LLMAgent
from selfsurf.sdft.rollouts.books import Books, Ledger
from selfsurf.sdft.rollouts.engine import Engine, Manner
from selfsurf.sdft.rollouts.environments import Environments
from selfsurf.sdft.rollouts.episode import Job, Result


class Rollouts:
    """Environments kept warm between calls. Use it as a context manager.

    Args:
        num_envs: most episodes at the same time.
        most: most episodes that the agent is asked for at once (`sdft.rollouts.engine.Manner`).
        env_options: passed to every environment (`browser_env.env.make_core`).
    """

    def __init__(self, num_envs: int = 8, *, most: int | None = None, **env_options: Any) -> None:
        self.num_envs = num_envs
        self.books = Books()
        """Of all runs so far."""
        self.most = most
        self._environments = Environments(num_envs, **env_options)

    def __enter__(self) -> Rollouts:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all environments."""
        self._environments.close()

    def run(
        self,
        agent: LLMAgent,
        jobs: Sequence[Job],
        *,
        demonstrate: bool = False,
        folder: Path | None = None,
        meta: dict[str, Any] | None = None,
        progress: Callable[[int], None] | None = None,
        seed: int | None = None,
        version: int = 0,
        lead: float = 0.0,
    ) -> list[Result]:
        """Run episodes, each at its own pace.

        Args:
            agent: acts in all of them.
            jobs: which episodes.
            demonstrate: show the agent the oracle's next action at every step.
            folder: write the episodes here, one folder each, or nowhere.
            meta: goes into every `episode.json`.
            progress: called with the number of episodes that have ended.
            seed: what actions are drawn from; None goes on in the agent's own random stream. The same seed and jobs
                give the same samples, whatever runs beside them.
            version: of the agent's weights, for the results.
            lead: how likely the oracle is to begin an episode (`sdft.rollouts.engine.Manner`).

        Returns:
            The results in the order of `jobs`. An episode that the infrastructure failed is run again once; if it
            fails again its outcome is `env_error`.
        """
        ledger = Ledger(jobs, seed=agent.next_seed() if seed is None else seed, version=version)
        # No limit of time: resets and steps have theirs, and how long the agent thinks is nobody's failure.
        manner = Manner(demonstrate, folder, meta or {}, self.most, episode_timeout=math.inf, lead=lead)
        engine = Engine(agent, self._environments, self.num_envs, manner)
        try:
            while not ledger.done:
                while engine.has_room and (ask := ledger.next()) is not None:
                    engine.begin(ask)
                for ask, result in engine.turn():
                    before = ledger.closed
                    ledger.ended(ask, result)
                    if progress and ledger.closed > before:
                        progress(ledger.closed)
        finally:
            engine.close()
        self.books += ledger.books()
        return ledger.results()
