"""Synchronous rollouts in this process, for training, evaluation and the demonstration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from selfsurf.agents.llm.llm_agent import LLMAgent
from selfsurf.agents.play import (
    AgentAdapter,
    Environments,
    EpisodeCounts,
    EpisodeRequest,
    Job,
    Ledger,
    Player,
    PlayOptions,
    Result,
)
from selfsurf.agents.play.environments import is_exclusive
from selfsurf.agents.play.provenance import versions
from selfsurf.agents.scripted import OracleAgent
from selfsurf.browser_env.record.episode import EpisodeWriter
from selfsurf.envs_registry import task_of
from selfsurf.envs_registry.loading import short_name


class Rollouts:
    """Environments that stay open between calls. A context manager.

    Args:
        num_envs: maximum number of concurrent episodes.
        most: maximum number of episodes in one call of the agent (`agents.play.options.PlayOptions`).
        env_options: options of every environment (`browser_env.environment.env.make_core`).
    """

    def __init__(self, num_envs: int = 8, *, most: int | None = None, **env_options: Any) -> None:
        self.num_envs = 1 if is_exclusive(env_options) else num_envs  # a profile allows one episode at a time
        self.tally = EpisodeCounts()
        """Tally of all runs so far."""
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
            agent: agent that acts in all episodes.
            jobs: episodes to run.
            demonstrate: whether the agent gets the oracle's next action at every step.
            folder: folder of the recorded episodes, one subfolder each; None to record nothing.
            meta: metadata for every `episode.json`.
            progress: function called with the number of finished episodes.
            seed: seed of the sampled actions; None to continue the agent's random stream. The same seed and jobs give
                the same samples, whatever other episodes run.
            version: version of the agent's weights, for the results.
            lead: probability of each step that the oracle takes first (`agents.play.options.PlayOptions`).

        Returns:
            The results in the order of `jobs`. An episode that the infrastructure failed is run again once; if it fails
            again its outcome is `env_error`.
        """
        own = agent.next_seed() if seed is None and isinstance(agent, LLMAgent) else seed
        ledger = Ledger(jobs, seed=own, version=version)

        def record(ask: EpisodeRequest) -> EpisodeWriter | None:
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

        # No episode timeout: resets and steps have their own, and a slow agent isn't a failure.
        play_options = PlayOptions(demonstrate=demonstrate, lead=lead, most=self.most)
        player = Player(AgentAdapter(agent), self._environments, self.num_envs, play_options, record=record)
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
