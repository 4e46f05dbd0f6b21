"""Time limits are counted in seconds of a machine with a free core: on a crowded one they last longer."""

import asyncio

import pytest

from selfsurf.browser_env.errors import EnvError
from selfsurf.browser_env.session import deadline as deadlines
from selfsurf.browser_env.session import patience


@pytest.mark.parametrize(("running", "expected"), [("1/90", 1.0), ("2/90", 1.0), ("8/90", 0.25), ("900/999", 0.125)])
def test_the_share_of_a_core(tmp_path, monkeypatch, running, expected):
    (loadavg := tmp_path / "loadavg").write_text(f"0.10 0.20 0.30 {running} 4711\n")
    monkeypatch.setattr(patience, "_LOADAVG", loadavg)
    monkeypatch.setattr(patience, "cores", lambda: 2)
    assert patience.share() == expected
    assert patience.stretched(10) == 10 / expected


def test_without_proc_it_is_the_mean_of_a_minute(tmp_path, monkeypatch):
    monkeypatch.setattr(patience, "_LOADAVG", tmp_path / "nothing")
    monkeypatch.setattr(patience, "cores", lambda: 2)
    monkeypatch.setattr(patience.os, "getloadavg", lambda: (4.0, 0.0, 0.0))
    assert patience.share() == 0.5


async def sleeps(seconds, limit):
    async with deadlines.deadline(limit, 10, lambda: None):
        await asyncio.sleep(seconds)


def test_a_deadline_is_put_off_on_a_crowded_machine_and_not_for_ever(monkeypatch):
    with pytest.raises(EnvError, match=r"no answer within 0\.8 s"):
        asyncio.run(sleeps(3, 0.8))
    monkeypatch.setattr(deadlines, "share", lambda: 0.25)
    asyncio.run(sleeps(1.5, 0.8))
    monkeypatch.setattr(deadlines, "LONGEST", 2)
    with pytest.raises(EnvError, match=r"no answer within 0\.8 s"):
        asyncio.run(sleeps(3, 0.8))


def test_a_page_hangs_later_on_a_crowded_machine(open_page, monkeypatch):
    page = "<button onclick='const end = Date.now() + 3500; while (Date.now() < end);'>Go</button>"
    env, _ = open_page(page, options={"screenshot": False, "hang_timeout": 1.0})
    monkeypatch.setattr(deadlines, "share", lambda: 0.2)
    *_, info = env.step({"action": "click", "id": 1})
    assert info["outcome"] == "running", info["outcome_detail"]
    monkeypatch.setattr(deadlines, "share", lambda: 1.0)
    *_, info = env.step({"action": "click", "id": 1})
    assert info["outcome_detail"] == "the page hangs: it did not answer for 1 s"
