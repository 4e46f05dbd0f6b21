"""In which order a trainer's batches are asked for, with what weights, and what its metrics say."""

import pytest

from selfsurf.sdft.rollouts import Batch, EpisodeCounts, Job, RolloutError
from selfsurf.sdft.rollouts.collector import Collector
from selfsurf.sdft.rollouts.pipeline import Pipeline, figures


class Recorder:
    """Notes what it is asked for."""

    def __init__(self, ahead):
        self.ahead = ahead
        self.said = []

    def publish(self, version, weights):
        self.said.append(("publish", version))

    def request(self, number, jobs, seed):
        self.said.append(("request", number, jobs, seed))

    def forget(self, number):
        self.said.append(("forget", number))

    def collect(self, number):
        self.said.append(("collect", number))
        return Batch([], EpisodeCounts(), seconds=4.0, waited=1.0)


def jobs_of(number):
    return [Job("a", number)]


def said(ahead, batches):
    generator = Recorder(ahead)
    pipeline = Pipeline(Collector(generator, None, dict), jobs_of=jobs_of, seed_of=lambda number: 100 + number)
    for number in range(batches):
        pipeline.batch(number, jobs_of(number), batches)
    return generator.said


def test_without_ahead_a_batch_is_made_by_the_newest_weights():
    assert said(0, 2) == [
        ("publish", 0), ("request", 0, jobs_of(0), 100), ("collect", 0),
        ("publish", 1), ("request", 1, jobs_of(1), 101), ("collect", 1),
    ]  # fmt: skip


def test_ahead_a_batch_is_made_by_weights_one_step_older():
    assert said(1, 3) == [
        ("publish", 0), ("request", 0, jobs_of(0), 100), ("collect", 0), ("request", 1, jobs_of(1), 101),
        ("publish", 1), ("collect", 1), ("request", 2, jobs_of(2), 102),
        ("publish", 2), ("collect", 2),
    ]  # fmt: skip


def test_what_was_asked_ahead_of_weights_that_were_put_back_is_asked_again_with_the_same_seed():
    generator = Recorder(1)
    pipeline = Pipeline(Collector(generator, None, dict), jobs_of=jobs_of, seed_of=lambda number: 100 + number)
    pipeline.batch(0, jobs_of(0), 3)
    del generator.said[:]
    pipeline.forget()
    pipeline.batch(1, jobs_of(1), 3)
    assert generator.said == [
        ("forget", 1), ("publish", 1), ("request", 1, jobs_of(1), 101), ("collect", 1), ("request", 2, jobs_of(2), 102),
    ]  # fmt: skip


def test_other_episodes_than_were_asked_for_are_noticed():
    pipeline = Pipeline(Collector(Recorder(1), None, dict), jobs_of=jobs_of, seed_of=int)
    pipeline.batch(0, jobs_of(0), 3)
    with pytest.raises(RolloutError, match="set ahead=0"):
        pipeline.batch(1, jobs_of(7), 3)


def test_metrics_tell_staleness_and_waiting():
    batch = Batch(
        [], EpisodeCounts(asked=4, finished=3, masked=1, rerun=2, lost=1), seconds=4.0, waited=1.0, workers_lost=2
    )
    assert figures(batch, 5, [4, 4, 5]) == {
        "episodes/rerun": 3, "rollouts/seconds": 4.0, "rollouts/waited_seconds": 1.0, "rollouts/workers_lost": 2,
        "rows/staleness": pytest.approx(2 / 3),
    }  # fmt: skip
