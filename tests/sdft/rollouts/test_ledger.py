"""The tally adds up, whatever becomes of workers and episodes."""

import pytest

from selfsurf.agents.play import EpisodeCounts, Job, Ledger, Result
from selfsurf.agents.play.job import failed
from selfsurf.agents.play.ledger import LOSSES, RERUNS, LedgerError

JOBS = [Job("a", 1), Job("b", 1), Job("a", 1)]


def solved(ask):
    return Result(ask.job, "solved", trainable=True)


def test_every_episode_ends_once():
    ledger = Ledger(JOBS, seed=5)
    asks = [ledger.next() for _ in JOBS]
    assert ledger.next() is None
    for ask in asks[::-1]:
        ledger.ended(ask, solved(ask))
    assert [result.job for result in ledger.results()] == JOBS
    assert ledger.tally() == EpisodeCounts(asked=3, finished=3)


def test_an_episode_that_fails_is_run_again_then_masked():
    ledger = Ledger(JOBS[:1], seed=5)
    for _ in range(RERUNS + 1):
        ask = ledger.next()
        ledger.ended(ask, failed(ask.job, "no page"))
    assert ledger.tally() == EpisodeCounts(asked=1, masked=1, rerun=RERUNS)
    (result,) = ledger.results()
    assert (result.outcome, result.trainable) == ("env_error", False)


def test_lost_episodes_are_run_again_a_bounded_number_of_times():
    ledger = Ledger(JOBS[:1], seed=5)
    for number in range(LOSSES + 1):
        ask = ledger.next()
        assert ask.attempt == number
        ledger.lost(ask, "the node is gone")
    assert ledger.tally() == EpisodeCounts(asked=1, masked=1, lost=LOSSES + 1)


def test_losses_leave_an_episode_its_reruns():
    ledger = Ledger(JOBS[:1], seed=5)
    ledger.lost(ledger.next(), "gone")
    ask = ledger.next()
    ledger.ended(ask, failed(ask.job, "no page"))
    ask = ledger.next()
    ledger.ended(ask, solved(ask))
    assert ledger.tally() == EpisodeCounts(asked=1, finished=1, rerun=1, lost=1)


def test_a_late_result_is_thrown_away():
    ledger = Ledger(JOBS[:1], seed=5)
    first = ledger.next()
    ledger.lost(first, "silent for too long")
    second = ledger.next()
    ledger.ended(first, failed(first.job, "late"))
    ledger.ended(second, solved(second))
    ledger.ended(second, solved(second))
    assert ledger.tally() == EpisodeCounts(asked=1, finished=1, lost=1, late=2)
    assert ledger.results()[0].outcome == "solved"


def test_the_tally_of_a_batch_that_is_not_done_are_refused():
    ledger = Ledger(JOBS, seed=5)
    ask = ledger.next()
    ledger.ended(ask, solved(ask))
    with pytest.raises(LedgerError, match="have not ended"):
        ledger.tally()
    with pytest.raises(LedgerError, match="2 finished"):
        EpisodeCounts(asked=3, finished=2).check()


def test_what_is_drawn_depends_on_run_job_and_step_alone():
    def seeds(jobs, seed):
        ledger, found = Ledger(jobs, seed=seed), {}
        while ask := ledger.next():
            found[ask.number] = [ask.step_seed(step) for step in range(3)]
        return found

    here = seeds(JOBS, 5)
    assert len({seed for each in here.values() for seed in each}) == 9  # the same job twice draws differently
    assert seeds(JOBS[1:], 5)[0] == here[1]
    assert seeds(JOBS[1:], 5)[1] == here[0]  # wherever it stands
    assert seeds(JOBS, 6)[0] != here[0]
    ledger = Ledger(JOBS[:1], seed=5)
    ledger.lost(ledger.next(), "gone")
    again = ledger.next()
    assert [again.step_seed(step) for step in range(3)] == here[0]  # a second attempt draws the same
