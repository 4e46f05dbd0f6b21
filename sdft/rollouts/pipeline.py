"""Takes batches from a collector in order, and asks for the next ones while the current one is learned from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from selfsurf.agents.play.job import Job
from selfsurf.sdft.rollouts.collector import Collector
from selfsurf.sdft.rollouts.generator import Batch, RolloutError


@dataclass
class Pipeline:
    """A trainer's view of its episodes."""

    collector: Collector
    jobs_of: Callable[[int], list[Job]]
    """The episodes of a batch."""
    seed_of: Callable[[int], int]
    """What the actions of a batch are drawn from."""
    _asked: dict[int, list[Job]] = field(default_factory=dict)

    def batch(self, number: int, jobs: list[Job], batches: int) -> Batch:
        """Return a batch, made by the weights as they are now or, if it was asked for ahead, as they were then.

        Args:
            number: of the batch, which is the number of optimizer steps so far and the version of the weights.
            jobs: its episodes.
            batches: how many there will be.

        Raises:
            RolloutError: it can't be made, or other episodes were asked for.
        """
        self.collector.publish(version=number)
        if self._asked.get(number, jobs) != jobs:
            raise RolloutError("The data loader gives other episodes than were asked for ahead; use ahead=0.")
        self._request(number, jobs)
        batch = self.collector.collect(number)
        del self._asked[number]
        for later in range(number + 1, min(number + 1 + self.collector.ahead, batches)):
            self._request(later, self.jobs_of(later))
        return batch

    def forget(self) -> None:
        """Drop what was asked for ahead: the weights have been put back, and those that sample it are abandoned.

        The next `batch` asks for it again, with the weights as they are then and the same seed.
        """
        for number in self._asked:
            self.collector.forget(number)
        self._asked.clear()

    def _request(self, number: int, jobs: list[Job]) -> None:
        if number not in self._asked:
            self._asked[number] = jobs
            self.collector.request(jobs, seed=self.seed_of(number), number=number)


def figures(batch: Batch, number: int, versions: Sequence[int]) -> dict[str, float]:
    """Figures of a batch for a trainer's metrics.

    Args:
        batch: the episodes.
        number: the trainer's version of the weights.
        versions: those that sampled the rows that are learned from.
    """
    return {
        "episodes/rerun": batch.tally.rerun + batch.tally.lost,
        "rollouts/seconds": batch.seconds,
        "rollouts/waited_seconds": batch.waited,
        "rollouts/workers_lost": batch.workers_lost,
        "rows/staleness": number - sum(versions) / len(versions) if versions else 0.0,
    }
