"""`selfsurf bench run --ray`: the same results as without, also when a worker is killed on the way."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import psutil
import pytest

from selfsurf.envs_registry import load_suite
from selfsurf.scripts.suite.plan import Plan
from selfsurf.scripts.suite.ray_pool import unpacked
from selfsurf.scripts.suite.records import Records
from selfsurf.scripts.suite.run import Run
from tests.agents.policy_server import replying, serve_raw
from tests.processes import until
from tests.scripts.test_bench_run import POLICY, bench, command, essence, results
from tests.scripts.test_own_tasks import SHOP, SUITE

ray = pytest.importorskip("ray")
WORDS = ("miniwob", "--agent", "random", "--task", "click-dialog", "--task", "click-option", "--seeds", 12)


def test_nothing_of_an_earlier_attempt_stays_in_an_episode(tmp_path):
    record = {"episode": "episodes/one", "screenshot": ""}
    for names in (("steps.jsonl", "0001.png", "0002.png"), ("steps.jsonl", "0001.png")):
        files = {f"episodes/one/{name}": b"content" for name in names}
        assert unpacked(("done", 0, 0, record, files), tmp_path) == ("done", 0, 0, record)
    assert {path.name for path in (tmp_path / "episodes/one").iterdir()} == {"steps.jsonl", "0001.png"}


def actors(pid):
    found = []
    for process in psutil.Process(pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if "ray::_Remote" in " ".join(process.cmdline()):
                found.append(process)
    return found


@pytest.mark.slow
def test_a_killed_actor_changes_nothing(tmp_path):
    bench(*WORDS, "--out", tmp_path / "local")
    words = (*WORDS, "--ray", "--processes", 2, "--out", tmp_path / "ray")
    wide = {**os.environ, "COLUMNS": "400"}
    process = subprocess.Popen(command(*words), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=wide)
    lines = tmp_path / "ray" / "results.jsonl"
    while not lines.exists() or not lines.read_bytes():
        assert process.poll() is None
        time.sleep(0.02)
    actors(process.pid)[0].kill()
    _, said = process.communicate(timeout=100)
    assert process.returncode == 0
    lost = [line for line in said.splitlines() if line.startswith("Lost: worker ")]
    assert len(lost) == 1
    assert "its worker process has died; " in lost[0]
    assert lost[0].endswith(" 1 of 2 workers are left.")
    assert not re.search("RuntimeError|raylet|Traceback", said)
    (session,) = json.loads((tmp_path / "ray" / "run.json").read_text())["sessions"]
    assert [(each["why"], each["left"]) for each in session["lost"]] == [("its worker process has died", 1)]
    assert essence(results(tmp_path / "ray")) == essence(results(tmp_path / "local"))
    for record in results(tmp_path / "ray").values():
        folder = tmp_path / "ray" / record["episode"]
        assert (folder / "steps.jsonl").read_text().count("\n") == record["steps"]
        assert record["screenshot"] is None or (tmp_path / "ray" / record["screenshot"]).exists()


AGENT = """
class Second:
    def act(self, obs):
        return {"action": "click", "id": obs["elements"][1]["id"]}
"""


PROMPT = """
from selfsurf.agents.prompt.compact import Compact

class Mine(Compact):
    pass
"""
OPTIONS = {"prompt": "my_prompt.py:Mine", "reply": '{"click":2}', "constrained": False, "guards": False}


@pytest.mark.slow
@pytest.mark.parametrize(("agent", "options"), [("my_agent.py:Second", {}), ("my_policy.py:Same", OPTIONS)])
def test_own_tasks_and_agents_travel_to_machines_that_lack_them(tmp_path, monkeypatch, agent, options):
    """The cluster was started in another folder, and the files are gone before a worker reads them."""
    from ray.cluster_utils import Cluster

    from selfsurf.scripts.suite.ray_pool import RayPool

    (here := tmp_path / "here").mkdir()
    for name, text in {
        "shop_of_test.py": SHOP,
        "shop.toml": SUITE,
        "my_agent.py": AGENT,
        "my_policy.py": POLICY,
        "my_prompt.py": PROMPT,
    }.items():
        (here / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        monkeypatch.chdir(here)
        suite = load_suite("shop.toml")
        plan = Plan(str(tmp_path / "run"), tuple(suite.about()), agent, suite.seeds, options)
        pool = RayPool(plan)
        monkeypatch.chdir(tmp_path)
        shutil.rmtree(here)
        about = {"format": 1, "suite": "shop", "agent": {}, "tasks": list(plan.tasks), "seeds": list(plan.seeds)}
        with Records(tmp_path / "run", about) as records:
            assert Run(plan, records, pool).work() == ""
    finally:
        ray.shutdown()
        cluster.shutdown()
    found = results(tmp_path / "run")
    assert len(found) == 4
    assert {(record["outcome"], record["steps"]) for record in found.values()} == {("solved", 1)}
    assert {record["reason"] for record in found.values()} == {"price 3", "price 5"}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_agent_of_roles_acts_on_ray_as_here(tmp_path):
    replies = 'Done.\nAction: {"finish":"ok"}', 'No. {"reject": {"missing": "a click"}}', 'Go.\nAction: {"click":1}'
    for name, more in (("here", ()), ("ray", ("--ray",))):
        with serve_raw(replying([], *replies), ["m"]) as url:
            sets = [f"--set={one}" for one in ("policy=openai", "model=m", f"base_url={url}")]
            words = ("miniwob", "--agent", "roles", "--task", "click-test", "--seeds", 1, "--workers", 1, *more)
            bench(*words, *sets, "--out", tmp_path / name)
    assert essence(results(tmp_path / "ray")) == essence(results(tmp_path / "here"))
    (record,) = results(tmp_path / "ray").values()
    assert (record["outcome"], record["steps"], record["claimed"]) == ("solved", 2, False)
    first = json.loads((tmp_path / "ray" / record["episode"] / "steps.jsonl").read_text().splitlines()[0])
    assert [one["role"] for one in first["decision"]["roles"]] == ["proposer", "verifier"]


@pytest.mark.slow
def test_ctrl_c_ends_at_once_keeps_the_records_and_goes_on_and_verbose_reaches_the_actors(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "local")  # not a cluster that happens to be on this machine
    words = [
        "bench",
        "run",
        "miniwob",
        "--task",
        "click-dialog",
        "--agent",
        "random",
        "--ray",
        "--keep-episodes",
        "none",
    ]
    command = [sys.executable, "-m", "selfsurf.scripts.cli", *words, "--seeds", "40", "--out", str(tmp_path / "run")]
    lines = tmp_path / "run" / "results.jsonl"
    with (tmp_path / "said").open("w") as said:
        run = subprocess.Popen([*command, "--verbose"], stdout=said, stderr=said, start_new_session=True)
        assert until(lambda: lines.exists() and lines.read_bytes().count(b"\n") >= 4, 60)
        os.killpg(run.pid, signal.SIGINT)
        assert run.wait(30) == 130
    text = (tmp_path / "said").read_text()
    assert "Traceback" not in text
    assert "selfsurf.browser_env.browser.runtime: Starting " in text  # an actor's
    assert 4 <= len(results(tmp_path / "run")) < 40
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, len(results(tmp_path / "run"))) == (0, 40)
