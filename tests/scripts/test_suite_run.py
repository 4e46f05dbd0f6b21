"""The loop of a run, with workers that say what a test has them say."""

import time

import pytest

from selfsurf.agents.play import Result
from selfsurf.scripts.suite.plan import Plan, record_of
from selfsurf.scripts.suite.records import Records
from selfsurf.scripts.suite.run import Run, RunError


class Workers:
    """A pool whose workers answer each ask with what `says` returns for the worker's number and the ask."""

    def __init__(self, says):
        self.says, self.said = says, []

    def start(self, number):
        self.said.append((number, ("ready", f"place {number}")))

    def send(self, number, message):
        self.said += [(number, one) for one in self.says(number, message[1])]

    def receive(self, timeout):
        said, self.said = self.said, []
        if not said:
            time.sleep(0.01)
        return said

    def kill(self, number):
        self.said = [one for one in self.said if one[0] != number]

    def close(self):
        pass


def done(ask, outcome="solved", **facts):
    result = Result(ask.job, outcome, trainable=True, attempt=ask.attempt, **facts)
    return "done", ask, result, record_of(result)


def play(folder, tasks, says, *, seeds=(0,), said=lambda text: None, **options):
    """Run these tasks, and return the records."""
    plan = Plan(str(folder), tuple({"id": task} for task in tasks), "agent", tuple(seeds), **options)
    about = {"format": 1, "suite": "own", "agent": {}, "tasks": list(plan.tasks), "seeds": list(seeds)}
    with Records(folder, about) as records:
        records.begin({})
        assert Run(plan, records, Workers(says), said=said).work() == ""
        return records.done


@pytest.mark.parametrize("killed_at", ["fine", "broken-0"])
def test_a_killed_run_goes_on_where_much_is_broken(tmp_path, killed_at):
    tasks = ["fine", *(f"broken-{number}" for number in range(8))]

    def says(number, ask):
        return [done(ask, "solved" if ask.job.env_id == "fine" else "env_error", detail="No such page.")]

    def says_until_killed(number, ask):
        if (ask.job.env_id, ask.job.seed) == (killed_at, 1):
            raise KeyboardInterrupt
        return says(number, ask)

    with pytest.raises(KeyboardInterrupt):
        play(tmp_path, tasks, says_until_killed, seeds=(0, 1))
    records = play(tmp_path, tasks, says, seeds=(0, 1))
    assert {key: record["outcome"] for key, record in records.items()} == {
        (task, seed): "solved" if task == "fine" else "env_error" for task in tasks for seed in (0, 1)
    }


def test_a_run_that_goes_on_where_nothing_works_any_more_stops_and_records_nothing(tmp_path):
    tasks = [f"task-{number}" for number in range(8)]
    play(tmp_path, tasks[:1], lambda number, ask: [done(ask)])
    with pytest.raises(RunError, match="Nothing of it is recorded"):
        play(tmp_path, tasks, lambda number, ask: [done(ask, "env_error", detail="No browser.")])
    assert (tmp_path / "results.jsonl").read_text().count("\n") == 1
