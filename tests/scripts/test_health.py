"""When a run stops since nothing works, and whose failure an `env_error` is."""

from selfsurf.agents.play import EpisodeRequest, Job, Result
from selfsurf.scripts.suite.health import CRASHES, FRUITLESS, Accounts, Health
from selfsurf.scripts.suite.reasons import reasons


def ended(task, outcome="env_error", *, crashed=False):
    job = Job(task, 0)
    return EpisodeRequest(0, job), Result(job, outcome, trainable=True, detail="No browser.", crashed=crashed)


def test_a_run_in_which_nothing_works_stops_once_several_tasks_have_been_tried():
    health = Health({"a", "b", "c", "d"}, ())
    assert not any(health.add(*ended("ab"[number % 2])) for number in range(2 * FRUITLESS))
    assert "No browser." in health.add(*ended("c"))
    assert not health.alive


def test_a_task_that_never_worked_is_no_reason_to_stop_one_that_did_is():
    health = Health({"a", "b"}, ())
    health.add(*ended("a", "failed"))
    assert not any(health.add(*ended("b")) for _ in range(2 * FRUITLESS))
    said = [health.add(*ended("a")) for _ in range(FRUITLESS)]
    assert [bool(text) for text in said] == [False] * (FRUITLESS - 1) + [True]


def test_a_crash_at_every_attempt_is_the_agents_over_all_runs_and_an_error_of_the_task_never():
    accounts = Accounts({("a", 0): {"env_errors": CRASHES - 1, "crashes": CRASHES - 1}})
    for task, crashed, outcome in (("a", False, "env_error"), ("a", True, "failed"), ("b", True, "env_error")):
        ask, result = ended(task, crashed=crashed)
        accounts.add(ask, result)
        assert result.outcome == outcome
    assert (accounts.of(("a", 0)).env_errors, accounts.of(("a", 0)).crashes) == (CRASHES + 1, CRASHES)


def test_what_attempts_without_a_verdict_cost_is_added_up_over_all_runs():
    accounts = Accounts({("a", 0): {"env_errors": 1, "crashes": CRASHES - 1, "lost_cost": 0.5}})
    for crashed in (False, True):
        ask, result = ended("a", crashed=crashed)
        result.cost = 0.25
        accounts.add(ask, result)
    assert accounts.of(("a", 0)).lost_cost == 0.75, "the last one is a failure, which has its cost itself"


def test_one_cause_is_counted_over_all_tasks():
    tasks = ["MiniWoB/click-dialog-2-v0", "MiniWoB/click-tab-v0", "shop.py:Order?price=3"]
    details = [f"The task {one.split(':')[-1]} could not be set up: no answer in 3{n} s" for n, one in enumerate(tasks)]
    records = [
        {"task": task, "outcome": "env_error", "outcome_detail": f"{detail}{number}"}
        for task, detail in zip(tasks, details, strict=True)
        for number in range(2)
    ]
    told = reasons(records, 0)
    assert told[1] == f"  6 x {details[0]}0 (3 tasks)"
    assert len(told) == 3
    health = Health(tasks, ())
    for detail, task in zip(details * 7, tasks * 7, strict=True):
        ask, result = ended(task)
        result.detail = detail
        stopped = health.add(ask, result)
    assert f"the last 21 attempts ended as env_error, 21 of them with: {details[0]}" in stopped


def test_a_task_that_was_broken_before_says_nothing_and_any_other_does():
    health = Health({"a", "b", "c", "d"}, ("d",), broken=("a",))
    assert not any(health.add(*ended("a")) for _ in range(2 * FRUITLESS))
    said = [health.add(*ended("bcd"[number % 3])) for number in range(FRUITLESS)]
    assert [bool(text) for text in said] == [False] * (FRUITLESS - 1) + [True]
