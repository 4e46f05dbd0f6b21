"""Rollouts in this process: the synchronous face, for training, evaluation and the demonstration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from selfsurf.agents.llm_agent import LLMAgent
from selfsurf.agents.play import Ask, Decider, Environments, Job, Ledger, Manner, Player, Result, Tally
from selfsurf.agents.play.environments import is_exclusive
from selfsurf.agents.play.provenance import versions
from selfsurf.agents.scripted import OracleAgent
from selfsurf.browser_env.record.episode import EpisodeWriter
from selfsurf.envs_registry import task_of
from selfsurf.envs_registry.loading import short_name


class Rollouts:
    """Environments kept warm between calls. Use it as a context manager.

    Args:
        num_envs: most episodes at the same time.
        most: most episodes that the agent is asked for at once (`agents.play.player.Manner`).
        env_options: passed to every environment (`browser_env.env.make_core`).
    """

    def __init__(self, num_envs: int = 8, *, most: int | None = None, **env_options: Any) -> None:
        self.num_envs = 1 if is_exclusive(env_options) else num_envs  # who share a profile take turns
        self.tally = Tally()
        """Of all runs so far."""
        self.most = most
        self._environments = Environments(task_of, self.num_envs, **env_options)

    def __enter__(self) -> Rollouts:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all environments."""
        self._environments.close()

    def run(
        self,
        agent: LLMAgent | OracleAgent,
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
            lead: how likely the oracle is to begin an episode (`agents.play.player.Manner`).

        Returns:
            The results in the order of `jobs`. An episode that the infrastructure failed is run again once; if it
            fails again its outcome is `env_error`.
        """
        own = agent.next_seed() if seed is None and isinstance(agent, LLMAgent) else seed
        ledger = Ledger(jobs, seed=own, version=version)

        def record(ask: Ask) -> EpisodeWriter | None:
            if folder is None:
                return None
            task = ask.job.env_id
            name = f"{short_name(task).replace('/', '_')}_{ask.job.seed}"
            name += f"_retry{ask.attempt}" if ask.attempt else ""
            about = {
                "episode_id": name,
                "env_id": short_name(task),
                "task": task,
                "seed": ask.job.seed,
                "versions": versions(),
            }
            return EpisodeWriter(folder / name, {**about, **(meta or {})})

        # No limit of time: resets and steps have theirs, and how long the agent thinks is nobody's failure.
        manner = Manner(demonstrate=demonstrate, lead=lead, most=self.most)
        player = Player(Decider(agent), self._environments, self.num_envs, manner, record=record)
        try:
            while not ledger.done:
                while player.has_room and (ask := ledger.next()) is not None:
                    player.begin(ask)
                for ask, result in player.turn():
                    before = ledger.closed
                    ledger.ended(ask, result)
                    if progress and ledger.closed > before:
                        progress(ledger.closed)
        finally:
            player.close()
        self.tally += ledger.tally()
        return ledger.results()
