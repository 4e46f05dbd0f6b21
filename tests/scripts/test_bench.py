import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import gymnasium
import pytest
from typer.testing import CliRunner

from selfsurf.browser_env.browser.runtime import runtime
from selfsurf.scripts.cli import app
from selfsurf.scripts.environment.raw import RawPage
from selfsurf.scripts.machine.loopback import serving
from selfsurf.scripts.machine.processes import descendants
from tests.processes import ended


@pytest.fixture
def docs(tmp_path):
    """A folder with the two pages that are looked at, but small."""
    text = "<!doctype html><title>Docs</title>" + "".join(
        f'<p><a href="#{i}">entry {i}</a> of many</p>' for i in range(300)
    )
    (tmp_path / "library").mkdir()
    for name in ("library/functions.html", "genindex-all.html"):
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_raw_pass_is_the_environments(tmp_path):
    far = "<p style='margin-top:9000px'><button>Far</button>"
    (tmp_path / "index.html").write_text(
        f"<!doctype html><button>One</button><a href='#x'>Two</a><input aria-label=Three>{far}"
    )

    async def raw(url):
        page = await RawPage.open((1280, 720))
        try:
            await page.page.goto(url)
            await page.install()
            return json.loads(await page.seen()), await page.screenshot()
        finally:
            await page.close()

    with serving(tmp_path) as origin:
        env = gymnasium.make("Browser-v0", start_url=f"{origin}/index.html", viewport=(1280, 720))
        observation, _ = env.reset(seed=0)
        seen, png = runtime().run(raw(f"{origin}/index.html"), timeout=30)
        env.close()
    names = [element["name"] for element in observation["elements"]]
    assert names[:3] == ["One", "Two", "Three"]
    assert [element[2] for element in seen["elements"]] == names
    assert png.startswith(b"\x89PNG")


@pytest.mark.slow
def test_bench_env_sets_everything_beside_the_raw_limit(docs):
    result = CliRunner().invoke(app, ["bench", "env", "--rounds", "1", "--docs", str(docs), "--json"])
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    works = ["step", "step, no screenshot", "reset", "observation, functions", "observation, genindex"]
    assert list(figures["works"])[:5] == works
    kinds = ("click", "fill", "select", "drag", "press", "scroll", "hover", "type")
    assert {f"step, {kind}" for kind in kinds} <= set(figures["works"])
    for summary in map(figures["works"].get, works):
        assert summary["ms"]["raw limit"] > 1
        assert 0.2 < summary["ratios"]["raw limit"]["ratio"] < 20  # the machine may be busy
        assert summary["ratios"]["raw limit"]["target"]
    assert figures["works"]["step"]["samples"] == {"selfsurf": 10, "raw limit": 10, "raw limit, frames on demand": 10}
    assert figures["phases"]["total"] > figures["phases"]["act"] > 0
    assert figures["characters"]["observation, genindex"]["selfsurf"] > 100
    assert figures["errors"] == {}


@pytest.mark.slow
def test_bench_env_without_the_documentation_says_so_and_measures_the_rest(tmp_path):
    result = CliRunner().invoke(app, ["bench", "env", "--rounds", "1", "--docs", str(tmp_path)])
    assert result.exit_code == 1, result.output
    assert f"{tmp_path} is not the Python documentation" in " ".join(result.stdout.split())
    assert "at most 2x" in result.stdout


@pytest.mark.slow
def test_a_peer_that_can_not_be_installed_is_a_line_and_not_the_end(docs, tmp_path, monkeypatch):
    monkeypatch.setenv("SELFSURF_HOME", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "peers").write_text("a file where the folder should be")
    result = CliRunner().invoke(app, ["bench", "env", "--peers", "--rounds", "1", "--docs", str(docs), "--json"])
    assert result.exit_code == 1, result.output
    figures = json.loads(result.stdout)
    assert "browsergym could not be installed" in figures["errors"]["BrowserGym"]
    assert "browser-use could not be installed" in figures["errors"]["browser-use"]
    assert figures["works"]["step"]["ratios"]["raw limit"]["ratio"] > 0


@pytest.mark.timeout(400)
@pytest.mark.slow
def test_bench_vector_writes_figures_and_a_curve(tmp_path):
    pytest.importorskip("matplotlib")
    arguments = ["--envs", "1,2", "--rounds", "1", "--seconds", "0.3", "--out", str(tmp_path), "--json"]
    result = CliRunner().invoke(app, ["bench", "vector", *arguments])
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    assert figures["errors"] == {}
    assert [(p["envs"], p["screenshot"]) for p in figures["points"]] == [(1, True), (2, True), (1, False), (2, False)]
    for point in figures["points"]:
        assert min(point[name] for name in ("vector", "loop", "single")) > 1
        assert point["phases"]["batch"] >= point["phases"]["rest"] > 0
        assert ("decode" in point["phases"]) is point["screenshot"]
        if sys.platform == "linux":
            assert 50 < point["memory"] < 2000
            assert set(point["cpu"]) == {"python", "driver", "browser"}
    if sys.platform == "linux":
        added = figures["ratios"]["with screenshots"]["MB per added environment"]
        first, second = (p["memory"] for p in figures["points"] if p["screenshot"])
        assert added == pytest.approx(second - first, abs=0.2)  # so short a look may even see memory given back
    assert figures["ratios"]["with screenshots"]["vector(8) / single"] is None
    assert json.loads((tmp_path / "vector.json").read_text())["points"] == figures["points"]
    assert (tmp_path / "vector.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_environments_are_set_beside_one_in_trouble():
    options = ["--envs", "1", "--no-screenshot", "--rounds", "1", "--seconds", "1", "--neighbours", "--json"]
    result = CliRunner().invoke(app, ["bench", "vector", *options])
    assert result.exit_code == 0, result.output
    beside = json.loads(result.stdout)["neighbours"]
    assert set(beside["steps"]) == {"rests", "works", "loops", "dialogs without end", "layout for seconds", "crashes"}
    assert all(speed > 1 for speed in beside["steps"].values())
    assert set(beside["kept"]) == set(beside["steps"]) - {"rests", "works"}


@pytest.mark.slow
def test_bench_throughput_times_whole_episodes():
    result = CliRunner().invoke(
        app, ["bench", "throughput", "--rounds", "1", "--seeds", "1", "--workers", "2", "--json"]
    )
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    assert figures["errors"] == {}
    assert len(figures["per_minute"]) == 2  # two at a time, and alone
    assert all(rate > 0 for rate in figures["per_minute"].values())


def test_bench_vector_wants_numbers():
    result = CliRunner().invoke(app, ["bench", "vector", "--envs", "1,few"])
    assert result.exit_code == 2
    assert "1,2,8" in result.output


@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_benchmark_that_is_stopped_leaves_nothing_behind(number):
    command = [sys.executable, "-m", "selfsurf.scripts.cli", "bench", "vector", "--envs", "2", "--seconds", "60"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    below = []
    try:
        end = time.monotonic() + 60
        while len(below := descendants(process.pid)) < 6 and time.monotonic() < end:  # until the browser is there
            time.sleep(0.1)
        assert len(below) >= 6
        process.send_signal(number)
        assert process.wait(30) != 0
        assert all(ended(pid) for pid in below)
    finally:
        process.kill()
        for pid in below:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_64_environments_in_one_process():
    result = CliRunner().invoke(app, ["bench", "vector", "--envs", "64", "--rounds", "1", "--seconds", "5", "--json"])
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    assert figures["errors"] == {}
    assert all(point["vector"] > 1 for point in figures["points"])


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_bench_env_beside_the_real_peers():
    result = CliRunner().invoke(app, ["bench", "env", "--peers", "--rounds", "1", "--json"])
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    assert {"BrowserGym", "BrowserGym, no delay", "raw limit"} <= set(figures["works"]["step"]["ratios"])
    assert {"BrowserGym", "browser-use", "raw limit"} <= set(figures["works"]["observation, functions"]["ratios"])
    assert figures["works"]["step"]["ratios"]["BrowserGym"]["ratio"] > 5


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_bench_agents_times_the_same_tokens_in_every_way(tmp_path):
    result = CliRunner().invoke(
        app, ["bench", "agents", "--envs", "2", "--actions", "4", "--rounds", "1", "--out", str(tmp_path), "--json"]
    )
    assert result.exit_code == 0, result.output
    figures = json.loads((tmp_path / "agents.json").read_text())
    (point,) = figures["points"]
    assert point["envs"] == 2
    assert point["actions"] >= 4
    assert 0 < point["reused"] < 1
    assert set(point["speed"]) == {"generate", "batched", "policy"}
    assert figures["ratios"]["actions per second / generate"] == pytest.approx(
        point["speed"]["policy"] / point["speed"]["generate"]
    )
    assert (tmp_path / "agents.png").stat().st_size > 5000


def test_bench_agents_wants_numbers():
    assert CliRunner().invoke(app, ["bench", "agents", "--envs", "0"]).exit_code == 2
