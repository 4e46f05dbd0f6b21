"""The loop of a run, with workers that say what a test has them say."""

import pytest

from selfsurf.agents.play import Result
from selfsurf.scripts.suite import run
from selfsurf.scripts.suite.plan import Plan, record_of
from selfsurf.scripts.suite.ray_pool import _loss
from selfsurf.scripts.suite.records import Records
from selfsurf.scripts.suite.run import GONE, Run, RunError


class Workers:
    """A pool that says what a script yields, round by round; the script sees what was sent."""

    def __init__(self, script):
        self.rounds = script(self)
        self.started, self.killed = [], []
        self.sent = []
        """Of each ask the worker's number and the ask."""

    def start(self, number):
        self.started.append(number)

    def send(self, number, message):
        self.sent.append((number, message[1]))

    def receive(self, timeout):
        return next(self.rounds)

    def kill(self, number):
        self.killed.append(number)

    def close(self):
        pass


def ready(number):
    return number, ("ready", f"place {number}")


def done(number, ask, outcome="solved", **facts):
    result = Result(ask.job, outcome, trainable=True, attempt=ask.attempt, **facts)
    return number, ("done", ask, result, record_of(result))


def answering(outcome_of):
    """A script in which every ask has its outcome in the next round."""

    def script(pool):
        yield [ready(number) for number in pool.started]
        while True:
            asked, pool.sent = pool.sent, []
            yield [done(number, ask, outcome_of(ask), detail="No such page.") for number, ask in asked]

    return script


def play(folder, tasks, script, *, seeds=(0,), **options):
    """Run these tasks, and return the records and the pool."""
    plan = Plan(str(folder), tuple({"id": task} for task in tasks), "agent", tuple(seeds), **options)
    about = {"format": 1, "suite": "own", "agent": {}, "tasks": list(plan.tasks), "seeds": list(seeds)}
    pool = Workers(script)
    with Records(folder, about) as records:
        records.begin({})
        assert Run(plan, records, pool).work() == ""
        return records.done, pool


@pytest.mark.parametrize(
    ("slots", "processes", "each"), [(4, 3, [2, 1, 1]), (4, 2, [2, 2]), (1, 3, [1, 1, 1]), (5, 1, [5])]
)
def test_the_workers_share_the_episodes_that_are_played_at_the_same_time(slots, processes, each):
    plan = Plan("", (), "agent", (0,), slots=slots, processes=processes)
    assert [plan.slots_of(number) for number in range(processes)] == each


@pytest.mark.parametrize("killed_at", ["fine", "broken-0"])
def test_a_killed_run_goes_on_where_much_is_broken(tmp_path, killed_at):
    tasks = ["fine", *(f"broken-{number}" for number in range(8))]

    def outcome_of(ask):
        return "solved" if ask.job.env_id == "fine" else "env_error"

    def outcome_until_killed(ask):
        if (ask.job.env_id, ask.job.seed) == (killed_at, 1):
            raise KeyboardInterrupt
        return outcome_of(ask)

    with pytest.raises(KeyboardInterrupt):
        play(tmp_path, tasks, answering(outcome_until_killed), seeds=(0, 1))
    records, _ = play(tmp_path, tasks, answering(outcome_of), seeds=(0, 1))
    assert {key: record["outcome"] for key, record in records.items()} == {
        (task, seed): "solved" if task == "fine" else "env_error" for task in tasks for seed in (0, 1)
    }


def test_a_run_that_goes_on_where_nothing_works_any_more_stops_and_records_nothing(tmp_path):
    tasks = [f"task-{number}" for number in range(8)]
    play(tmp_path, tasks[:1], answering(lambda ask: "solved"))
    with pytest.raises(RunError, match="None of these attempts is recorded"):
        play(tmp_path, tasks, answering(lambda ask: "env_error"))
    assert (tmp_path / "results.jsonl").read_text().count("\n") == 1


def lost(kind, why="a worker ended with exit code 3"):
    """A script in which the worker is lost each time that the agent is asked."""

    def script(pool):
        while True:
            yield [ready(0)]
            _, ask = pool.sent[-1]
            yield [(0, ("begun", ask)), (0, ("acting", [ask])), (0, (kind, why))]

    return script


@pytest.mark.parametrize(("retries", "outcome"), [(0, "env_error"), (1, "failed"), (2, "failed")])
def test_an_agent_at_which_each_worker_was_lost_has_failed(tmp_path, retries, outcome):
    records, pool = play(tmp_path, ["one"], lost(GONE), retries=retries)
    assert (records["one", 0]["outcome"], records["one", 0]["attempts"]) == (outcome, retries + 1)
    assert len(pool.sent) == retries + 1


def test_a_node_that_dies_is_never_the_agents_failure(tmp_path):
    records, _ = play(tmp_path, ["one"], lost(run.NODE_GONE, "its node has died"), retries=2)
    assert (records["one", 0]["outcome"], records["one", 0]["outcome_detail"]) == ("env_error", "its node has died")


def test_a_worker_that_is_lost_after_other_errors_is_not_the_agents_failure(tmp_path):
    def script(pool):
        yield [ready(0)]
        for _ in range(2):
            yield [done(*pool.sent[-1], "env_error")]
        yield from lost(GONE)(pool)

    records, _ = play(tmp_path, ["one"], script, retries=2)
    assert records["one", 0]["outcome"] == "env_error"


@pytest.mark.parametrize(
    ("said", "loss"),
    [
        ("The actor is dead because its node has died.\nIt was", (run.NODE_GONE, "its node has died")),
        ("The actor is dead because its worker process has died. It", (GONE, "its worker process has died")),
        (
            "The actor is temporarily unavailable: timeout",
            (run.NODE_GONE, "it can't be reached: its node has died, or"),
        ),
    ],
)
def test_a_node_that_is_lost_is_told_from_a_worker(said, loss):
    kind, why = _loss(RuntimeError(said))
    assert (kind, why[: len(loss[1])]) == loss


@pytest.fixture
def clock(monkeypatch):
    """Seconds that have passed for the stopwatches; a test turns it on."""
    now = [0.0]

    class Watch:
        def __init__(self):
            self.began = now[0]

        def look(self):
            return now[0] - self.began

    monkeypatch.setattr(run, "Stopwatch", Watch)
    return now


@pytest.mark.parametrize("beside", [["two"], ["two", "three"]])
def test_what_stands_beside_a_hung_episode_pays_nothing_for_it(tmp_path, clock, beside):
    def script(pool):
        yield [ready(0)]
        asks = [ask for _, ask in pool.sent]
        yield [*((0, ("begun", ask)) for ask in asks), (0, ("acting", asks[:1]))]
        clock[0] += 1000
        yield []
        assert pool.killed == [0]
        yield [ready(0)]
        again = pool.sent[len(asks) :]
        assert sorted(ask.number for _, ask in again) == [ask.number for ask in asks[1:]]
        assert not any(ask.alone or ask.attempt for _, ask in again)
        yield [done(*one) for one in again]

    records, _ = play(tmp_path, ["one", *beside], script, slots=3, retries=0)
    assert [records[task, 0]["outcome"] for task in ("one", *beside)] == ["timeout", *["solved"] * len(beside)]


def test_a_worker_that_had_nothing_to_do_is_not_killed_for_its_silence(tmp_path, clock):
    def script(pool):
        yield [ready(0), ready(1)]
        assert [number for number, _ in pool.sent] == [0, 0]
        clock[0] += 1000
        yield [(0, (GONE, "a worker ended with exit code 3"))]
        yield []
        assert pool.killed == []
        asks = pool.sent[2:]
        assert [number for number, _ in asks] == [1, 1]
        yield [done(*one) for one in asks]

    play(tmp_path, ["one", "two"], script, processes=2)
