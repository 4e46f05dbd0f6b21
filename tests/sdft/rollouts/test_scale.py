"""The calculation of growth: checked by hand at points where each of the limits decides."""

from dataclasses import replace

import pytest

from selfsurf.sdft.rollouts.scale import WorkerFigures, expected, growth

FIGURES = WorkerFigures(
    steps=2, env_seconds=0.1, cpu_seconds=0.04, policy_seconds=0.3, policy_rows=50, driver_seconds=0.01,
    worker_mb=300, context_mb=20, policy_mb=1000, call_bytes=10_000, result_bytes=100_000, weight_bytes=20_000_000,
)  # fmt: skip
OPTIONS = {"contexts": 8, "cpus": 1.0, "policies": None, "version_seconds": 10.0}


def test_a_point_is_what_the_formula_says():
    point = expected(FIGURES, 4, **OPTIONS)
    assert point.saturated == "contexts"
    assert point.steps_per_second == pytest.approx(4 * 8 / 0.4)  # 80 steps, 40 episodes a second
    assert point.episodes_per_minute == pytest.approx(2400)
    assert point.policies == 2
    assert point.cpus == pytest.approx(3.2)
    assert point.memory_gb == pytest.approx((4 * (300 + 160) + 2 * 1000) / 1024)
    assert point.call_mb_per_second == pytest.approx(0.8)
    assert point.result_mb_per_second == pytest.approx(4)
    assert point.weight_mb_per_second == pytest.approx(4)


@pytest.mark.parametrize(
    ("change", "options", "saturated"),
    [
        ({}, {"policies": 1}, "policy workers"),
        ({"cpu_seconds": 0.06}, {}, "processors of browser workers"),
        ({"driver_seconds": 0.03}, {}, "the process that collects results"),
    ],
)
def test_the_least_limit_decides(change, options, saturated):
    point = expected(replace(FIGURES, **change), 4, **{**OPTIONS, **options})
    assert point.saturated == saturated
    assert point.steps_per_second < 80


def test_growth_ends_where_something_is_saturated():
    points = growth(FIGURES, 1000, **OPTIONS)
    assert [point.browsers for point in points] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000]
    speeds = [point.steps_per_second for point in points]
    assert speeds == sorted(speeds)
    assert points[-1].saturated == "the process that collects results"
    assert points[-1].steps_per_second == pytest.approx(200)
    assert [point.browsers for point in growth(FIGURES, 1, **OPTIONS)] == [1]
