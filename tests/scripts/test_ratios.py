import pytest

from selfsurf.scripts.report.turns import OURS, RAW, Workload


@pytest.fixture
def work():
    work = Workload("step", {RAW: 2, "Slow": 35})
    for ours, raw, slow in (([0.010, 0.020, 0.030], [0.010], [0.6, 0.8]), ([0.020], [0.010, 0.030], [1.0])):
        work.add(OURS, ours)
        work.add(RAW, raw)
        work.add("Slow", slow)
    return work


def test_medians_are_of_all_rounds_in_milliseconds(work):
    summary = work.summary()
    assert summary["ms"] == {OURS: 20.0, RAW: 10.0, "Slow": 800.0}
    assert summary["samples"] == {OURS: 4, RAW: 3, "Slow": 3}


def test_the_raw_limit_goes_into_ours_and_ours_into_a_peer(work):
    ratios = work.summary()["ratios"]
    assert ratios[RAW] == {"ratio": 2.0, "min": 1.0, "max": 2.0, "target": 2, "bound": "at most", "met": True}
    assert ratios["Slow"] == {"ratio": 40.0, "min": 35.0, "max": 50.0, "target": 35, "bound": "at least", "met": True}


def test_a_target_can_be_missed():
    work = Workload("step", {RAW: 2, "Slow": 35})
    for name, seconds in ((OURS, 0.021), (RAW, 0.01), ("Slow", 0.7)):
        work.add(name, [seconds])
    ratios = work.summary()["ratios"]
    assert ratios[RAW]["met"] is False
    assert ratios["Slow"]["met"] is False


def test_no_target_no_verdict_and_no_time_no_ratio():
    work = Workload("step")
    work.add("Slow", [1.0])
    work.add(RAW, [])
    assert work.summary()["ratios"] == {}
    work.add(OURS, [0.5])
    assert work.summary()["ratios"]["Slow"]["met"] is None
    assert RAW not in work.summary()["ratios"]
