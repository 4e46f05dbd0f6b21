"""Batches of a trainer in order, with the next ones requested in advance while the current one is learned from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from selfsurf.agents.play.job import Job
from selfsurf.sdft.rollouts.collector import Collector
from selfsurf.sdft.rollouts.generator import Batch, RolloutError


@dataclass
class Pipeline:
    """Ordered access to a trainer's batches of episodes."""

    collector: Collector
    jobs_of: Callable[[int], list[Job]]
    """Function that returns the episodes of a batch, given its number."""
    seed_of: Callable[[int], int]
    """Function that returns the seed of a batch's sampled actions, given its number."""
    _asked: dict[int, list[Job]] = field(default_factory=dict)

    def batch(self, number: int, jobs: list[Job], batches: int) -> Batch:
        """Return a batch, sampled by the current weights or, if requested in advance, by the weights at that time.

        Args:
            number: number of the batch, equal to the number of optimizer steps so far and the version of the weights.
            jobs: episodes of the batch.
            batches: total number of batches.

        Raises:
            RolloutError: the batch can't be made, or other episodes were requested in advance.
        """
        self.collector.publish(version=number)
        if self._asked.get(number, jobs) != jobs:
            raise RolloutError("The data loader's episodes differ from those requested ahead: set ahead=0.")
        self._request(number, jobs)
        batch = self.collector.collect(number)
        del self._asked[number]
        for later in range(number + 1, min(number + 1 + self.collector.ahead, batches)):
            self._request(later, self.jobs_of(later))
        return batch

    def forget(self) -> None:
        """Drop batches requested in advance, after a rollback has abandoned the weights that sample them.

        The next `batch` requests them again, with the restored weights and the same seed.
        """
        for number in self._asked:
            self.collector.forget(number)
        self._asked.clear()

    def _request(self, number: int, jobs: list[Job]) -> None:
        if number not in self._asked:
            self._asked[number] = jobs
            self.collector.request(jobs, seed=self.seed_of(number), number=number)


def figures(batch: Batch, number: int, versions: Sequence[int]) -> dict[str, float]:
    """Return a batch's columns of the metrics.

    Args:
        batch: the episodes.
        number: the trainer's version of the weights.
        versions: versions of the weights that sampled the rows to learn from.
    """
    return {
        "episodes/rerun": batch.tally.rerun + batch.tally.lost,
        "rollouts/seconds": batch.seconds,
        "rollouts/waited_seconds": batch.waited,
        "rollouts/workers_lost": batch.workers_lost,
        "rows/staleness": number - sum(versions) / len(versions) if versions else 0.0,
    }
