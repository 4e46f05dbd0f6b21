"""Time limits are counted in seconds of a machine with a free core: on a crowded one they last longer."""

import asyncio

import pytest

from selfsurf.browser_env import patience
from selfsurf.browser_env.errors import EnvError
from selfsurf.browser_env.session import deadline as deadlines


@pytest.mark.parametrize(("running", "expected"), [("1/90", 1.0), ("3/90", 1.0), ("9/90", 0.25), ("900/999", 0.125)])
def test_the_share_of_a_core_without_the_thread_that_looks(tmp_path, monkeypatch, running, expected):
    (loadavg := tmp_path / "loadavg").write_text(f"0.10 0.20 0.30 {running} 4711\n")
    monkeypatch.setattr(patience, "_LOADAVG", loadavg)
    monkeypatch.setattr(patience, "cores", lambda: 2)
    assert patience.cpu_share() == expected
    assert patience.stretched(10) == 10 / expected


def test_without_proc_it_is_the_mean_of_a_minute(tmp_path, monkeypatch):
    monkeypatch.setattr(patience, "_LOADAVG", tmp_path / "nothing")
    monkeypatch.setattr(patience, "cores", lambda: 2)
    monkeypatch.setattr(patience.os, "getloadavg", lambda: (4.0, 0.0, 0.0))
    assert patience.cpu_share() == 0.5


def test_where_nothing_tells_a_core_is_free(tmp_path, monkeypatch):
    def unknown():
        raise OSError

    monkeypatch.setattr(patience, "_LOADAVG", tmp_path / "nothing")
    monkeypatch.setattr(patience.os, "getloadavg", unknown)
    assert patience.cpu_share() == 1


@pytest.mark.parametrize(
    ("used", "held", "waited", "expected"),
    [
        (1.0, 0.0, 0.9, 0.25),  # others crowd the machine, and it waits
        (1.0, 0.0, 0.01, 1.0),  # they crowd other cores than its own
        (0.5, 2.0, 0.9, 0.2),  # its quota is used up
        (0.5, 2.0, 0.01, 0.2),
        (0.0, 0.0, 0.0, 1.0),  # it is idle
    ],
)
def test_in_a_container_its_own_cgroup_counts(tmp_path, monkeypatch, used, held, waited, expected):
    """Files as Linux 6 has them, times in microseconds; half a second passes between the two looks."""

    def tell(used, held, waited):
        (tmp_path / "cpu.stat").write_text(
            f"usage_usec {used * 1e6:.0f}\nuser_usec 5\nnr_periods 7\nnr_throttled 1\nthrottled_usec {held * 1e6:.0f}\n"
        )
        (tmp_path / "cpu.pressure").write_text(
            f"some avg10=1.00 avg60=2.00 avg300=3.00 total={waited * 1e6:.0f}\n"
            "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
        )

    (loadavg := tmp_path / "loadavg").write_text("0.10 0.20 0.30 9/90 4711\n")
    now = 1000.0
    monkeypatch.setattr(patience, "_LOADAVG", loadavg)
    monkeypatch.setattr(patience, "_CGROUP", tmp_path)
    monkeypatch.setattr(patience, "_container", patience._Container())
    monkeypatch.setattr(patience, "cores", lambda: 2)
    monkeypatch.setattr(patience.time, "monotonic", lambda: now)
    tell(100.0, 50.0, 70.0)
    assert patience.cpu_share() == 0.25, "what was before the first look says nothing"
    tell(100.0 + used, 50.0 + held, 70.0 + waited)
    assert patience.cpu_share() == 0.25, "too soon for another look"
    now += 1.0
    assert patience.cpu_share() == expected


def test_a_stopwatch_counts_what_a_crowded_machine_gives(monkeypatch):
    now = 1000.0
    monkeypatch.setattr(patience.time, "monotonic", lambda: now)
    monkeypatch.setattr(patience, "cpu_share", lambda: 0.25)
    watch = patience.Stopwatch()
    now += 8
    assert watch.look() == 2
    monkeypatch.setattr(patience, "cpu_share", lambda: 1.0)
    now += 3
    assert watch.look() == watch.look() == 5


async def sleeps(seconds, limit):
    async with deadlines.deadline(limit, 10, lambda: None):
        await asyncio.sleep(seconds)


@pytest.mark.slow
def test_a_deadline_is_put_off_on_a_crowded_machine_and_not_for_ever(monkeypatch):
    with pytest.raises(EnvError, match=r"no answer within 0\.8 s"):
        asyncio.run(sleeps(3, 0.8))
    monkeypatch.setattr(patience, "cpu_share", lambda: 0.25)
    asyncio.run(sleeps(1.5, 0.8))
    monkeypatch.setattr(patience, "LONGEST", 2)
    with pytest.raises(EnvError, match=r"no answer within 0\.8 s \(extended to 2 s on a busy machine\): the page"):
        asyncio.run(sleeps(3, 0.8))


def test_a_page_hangs_later_on_a_crowded_machine(open_page, monkeypatch):
    page = "<button onclick='const end = Date.now() + 3500; while (Date.now() < end);'>Go</button>"
    env, _ = open_page(page, options={"screenshot": False, "hang_timeout": 1.0})
    monkeypatch.setattr(patience, "cpu_share", lambda: 0.2)
    *_, info = env.step({"action": "click", "id": 1})
    assert info["outcome"] == "running", info["outcome_detail"]
    monkeypatch.setattr(patience, "cpu_share", lambda: 1.0)
    *_, info = env.step({"action": "click", "id": 1})
    assert info["outcome_detail"] == "the page hangs: it did not answer for 1 s"
