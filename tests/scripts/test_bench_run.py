"""`selfsurf bench run` with real workers: what is killed, hangs or raises is run again or typed, and nothing twice."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from selfsurf.scripts.machine.processes import descendants
from selfsurf.scripts.suite.records import Records, RecordsError

AGENTS = '''
import os, time
from pathlib import Path

class First:
    """Clicks the first button; what else it does depends on the goal or the seed that it was made for."""

    def __init__(self, hang="", raises="", dies="", flag=""):
        self.hang, self.raises, self.dies, self.flag = hang, raises, dies, Path(flag)

    def act(self, obs):
        if self.hang and self.hang in obs["goal"]:
            time.sleep(3600)
        if self.raises and self.raises in obs["goal"]:
            raise RuntimeError("no idea")
        if self.dies and not self.flag.exists():
            self.flag.touch()
            os.abort()
        return {"action": "click", "id": next(e["id"] for e in obs["elements"] if e["role"] == "button")}
'''
POLICY = '''
from selfsurf.agents.policy import Completion, Policy

class Same(Policy):
    """Always replies the same."""

    name, guidance, sees_images = "same", "none", False
    prompt_budget, parameter_count, context_length = 4000, None, None

    def __init__(self, reply):
        self.reply = reply

    def count_tokens(self, text):
        return len(text.split())

    def count_prompt_tokens(self, messages, prefill=""):
        return sum(self.count_tokens(message.text) for message in messages)

    def complete(self, conversations, **_):
        return [Completion(self.reply, prompt_token_ids=[], token_ids=[], logprobs=[], grammar=None,
                           finish_reason="eos") for _ in conversations]
'''
CHECKED = ("task", "seed", "outcome", "steps", "reward", "raw_reward", "outcome_detail")


def command(*words):
    return [sys.executable, "-m", "selfsurf.scripts.cli", "bench", "run", *map(str, words)]


def bench(*words, code=0):
    wide = {**os.environ, "COLUMNS": "400"}  # no line of a message is broken
    run = subprocess.run(command(*words), capture_output=True, text=True, timeout=100, env=wide)
    assert run.returncode == code, run.stderr
    return run


def results(folder):
    lines = (Path(folder) / "results.jsonl").read_text().splitlines()
    records = {(record["task"], record["seed"]): record for record in map(json.loads, lines)}
    assert len(records) == len(lines)
    return records


def essence(records):
    return {key: [record[name] for name in CHECKED] for key, record in records.items()}


@pytest.fixture
def suite(tmp_path):
    (tmp_path / "agents.py").write_text(AGENTS)
    path = tmp_path / "two.toml"
    path.write_text(
        'name = "two"\nseeds = 3\n'
        'tasks = ["MiniWoB/click-test-2-v0", { id = "MiniWoB/click-dialog-v0", split = "test", groups = ["dialogs"] }]\n'
    )
    return path


def test_a_policy_of_ones_own_acts_through_an_agent_with_options(suite, tmp_path):
    (tmp_path / "policy.py").write_text(POLICY)
    agent = ("--agent", f"{tmp_path / 'policy.py'}:Same", "--set", 'reply="nothing"', "--set", "constrained=false")
    bench(suite, *agent, "--seeds", 1, "--max-steps", 2, "--out", tmp_path / "run")
    for record in results(tmp_path / "run").values():
        assert (record["outcome"], record["steps"]) == ("timeout", 2)
    refused = bench(suite, *agent, "--set", "constrained=3", "--out", tmp_path / "no", code=2)
    assert "constrained=3" in refused.stderr
    assert not (tmp_path / "no").exists()


def test_an_oracle_on_a_suite_of_ones_own(suite, tmp_path):
    bench(suite, "--agent", "oracle", "--out", tmp_path / "run")
    records = results(tmp_path / "run")
    assert len(records) == 6
    for record in records.values():
        assert (record["outcome"], record["raw_reward"], record["steps"], record["attempts"]) == ("solved", 1, 1, 1)
        assert (tmp_path / "run" / record["episode"] / "steps.jsonl").read_text().count("\n") == 1
        assert 0 < record["time_reward"] <= 1
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert about["tasks"][1] | {"options": 0, "folder": 0} == {
        "sha256": "",
        "id": "MiniWoB/click-dialog-v0", "split": "test", "groups": ["dialogs"], "options": 0, "folder": 0,
    }  # fmt: skip
    assert about["versions"]["miniwob"]
    assert about["agent"]["name"] == "oracle"
    before = (tmp_path / "run" / "results.jsonl").read_bytes()
    bench(suite, "--agent", "oracle", "--out", tmp_path / "run")
    assert (tmp_path / "run" / "results.jsonl").read_bytes() == before
    failed = bench(suite, "--agent", "random", "--out", tmp_path / "run", code=2)
    assert "another run; not the same: agent." in failed.stderr


def test_an_agent_that_raises_fails_its_own_episodes_only(suite, tmp_path):
    agent = f"{tmp_path}/agents.py:First"
    bench(suite, "--agent", agent, "--set", "raises=dialog", "--out", tmp_path / "run")
    for (task, _), record in results(tmp_path / "run").items():
        if "dialog" in task:
            assert (record["outcome"], record["agent_raised"]) == ("failed", True)
            assert record["outcome_detail"] == "the agent raised RuntimeError: no idea"
            assert (tmp_path / "run" / record["screenshot"]).read_bytes()[1:4] == b"PNG"
        else:
            assert not record["agent_raised"]


def test_a_worker_that_dies_is_replaced_and_its_episodes_run_again(suite, tmp_path):
    agent = f"{tmp_path}/agents.py:First"
    bench(suite, "--agent", agent, "--set", "dies=1", "--set", f"flag={tmp_path}/flag", "--out", tmp_path / "run")
    records = results(tmp_path / "run")
    assert len(records) == 6
    assert {record["outcome"] for record in records.values()} <= {"solved", "failed"}
    assert {record["attempts"] for record in records.values()} <= {1, 2}


def test_an_agent_that_hangs_is_killed_and_typed(suite, tmp_path):
    agent = f"{tmp_path}/agents.py:First"
    words = ("--agent", agent, "--set", "hang=dialog", "--episode-timeout", 4, "--task", "click-dialog")
    bench(suite, *words, "--seeds", 1, "--out", tmp_path / "run")
    for record in results(tmp_path / "run").values():
        assert (record["outcome"], record["outcome_detail"]) == ("timeout", "the agent did not answer within 4 s")


def test_a_deadline_ends_a_run_that_goes_on_later(suite, tmp_path):
    words = (suite, "--agent", "oracle", "--out", tmp_path / "run")
    bench(*words, "--deadline", 1, code=1)
    bench(*words)
    assert len(results(tmp_path / "run")) == 6


def test_what_cannot_be_run_is_said_before_anything_is_begun(suite, tmp_path):
    def said(*words):
        return bench(*words, "--out", tmp_path / "run", code=2).stderr

    assert "There is no suite 'nothing': there are miniwob" in said("nothing")
    assert "has no split 'val': it has test." in said(suite, "--split", "val")
    assert "has no task 'click-tset'" in said(suite, "--task", "click-tset")
    assert "--seeds 3-1: give a number" in said(suite, "--seeds", "3-1")
    assert "Unknown agent 'nobody'" in said(suite, "--agent", "nobody")
    assert "There is no file" in said(suite, "--agent", "nobody.py:Agent")
    assert "no class 'Second'" in said(suite, "--agent", f"{tmp_path}/agents.py:Second")
    assert "unexpected keyword argument 'hangs'" in said(
        suite, "--agent", f"{tmp_path}/agents.py:First", "--set", "hangs=1"
    )
    suite.write_text('tasks = [{ id = "shop.py:Buy" }]')
    assert f"There is no file {tmp_path}/shop.py" in said(suite)
    suite.write_text('tasks = [{ task = "x" }]')
    assert "task 1: id is missing" in said(suite)
    assert not (tmp_path / "run").exists()


def test_records_refuse_what_is_not_theirs(tmp_path):
    about = {"format": 1, "suite": "s", "agent": {}, "tasks": [{"id": "t"}], "seeds": [0], "max_steps": None}
    record = {"task": "t", "seed": 0, "outcome": "solved"}
    with Records(tmp_path / "run", about) as records:
        assert records.add(record)
        assert not records.add({**record, "outcome": "failed"})
        with pytest.raises(RecordsError, match="Another process"):
            Records(tmp_path / "run", about)
    path = tmp_path / "run" / "results.jsonl"
    path.write_text(path.read_text() + '{"task": "t", "se')
    with Records(tmp_path / "run", about) as records:
        assert list(records.done) == [("t", 0)]
        assert path.read_text().count("\n") == 1
    path.write_text("{}\n" + path.read_text())
    with pytest.raises(RecordsError, match="line 1"):
        Records(tmp_path / "run", about)
    path.write_text(2 * (json.dumps(record) + "\n"))
    with pytest.raises(RecordsError, match="twice"):
        Records(tmp_path / "run", about)
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path):
        with pytest.raises(RecordsError, match="give"):
            Records(folder, about)


def killed(folder, words, more, delay):
    """Start the command and kill it, and nothing else, with SIGKILL: `delay` seconds after so many more results."""
    path = folder / "results.jsonl"
    wanted = (path.read_bytes().count(b"\n") if path.exists() else 0) + more
    process = subprocess.Popen(command(*words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while more and not (path.exists() and path.read_bytes().count(b"\n") >= wanted):
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(delay)
    below = descendants(process.pid)
    running = process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    end = time.monotonic() + 30
    while any(alive(pid) for pid in below):
        assert time.monotonic() < end, "what it started goes on"
        time.sleep(0.1)
    return running


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_five_kills_change_nothing(tmp_path):
    words = (
        "miniwob", "--agent", "random", "--group", "tiny", "--task", "click-dialog", "--task", "click-checkboxes",
        "--seeds", 60, "--max-steps", 4,
    )  # fmt: skip
    bench(*words, "--out", tmp_path / "whole")
    chance, interrupted = random.Random(0), 0
    for more in (0, 3, 7, 1, 12):
        folder = tmp_path / "killed"
        interrupted += killed(folder, (*words, "--out", folder), more, chance.uniform(0, 2 if not more else 0.3))
    assert interrupted == 5
    begun = len(results(tmp_path / "killed"))
    assert 0 < begun < 120
    bench(*words, "--out", tmp_path / "killed")
    assert essence(results(tmp_path / "killed")) == essence(results(tmp_path / "whole"))
    for record in results(tmp_path / "killed").values():
        episode = json.loads((tmp_path / "killed" / record["episode"] / "episode.json").read_text())
        assert (episode["outcome"], episode["totals"]["steps"]) == (record["outcome"], record["steps"])


def test_one_kill_leaves_nothing_behind_and_nothing_lost(tmp_path):
    words = ("miniwob", "--agent", "random", "--task", "click-dialog", "--seeds", 30, "--out", tmp_path / "run")
    assert killed(tmp_path / "run", words, 4, 0.1)
    bench(*words)
    assert len(results(tmp_path / "run")) == 30


TASKS = """
import os, sys
from pathlib import Path

from selfsurf.browser_env import Score, Task
from selfsurf.browser_env.actions import Finish


class Base(Task):
    start_url = "about:blank"

    def ask(self):
        return "Finish."

    async def setup(self, page, rng):
        return self.ask()

    async def score(self, page, episode):
        return Score(reward=self.judge(), done=episode.finished)

    def judge(self):
        return 1.0

    def oracle(self, obs):
        return Finish(answer="x" * 5000)


class Fine(Base):
    pass


class Generous(Base):
    def judge(self):
        return 2.0


class Silent(Base):
    def ask(self):
        return None


class Deadly(Base):
    def ask(self):
        os._exit(5)


class Nowhere(Base):
    sites = {"http://gone.test": Path(__file__).parent / "nowhere"}
"""


@pytest.fixture
def own(tmp_path):
    """Make a suite of classes of tasks.py."""
    (tmp_path / "tasks.py").write_text(TASKS)
    (tmp_path / "agents.py").write_text(AGENTS)

    def make(*names):
        path = tmp_path / "own.toml"
        path.write_text(f"seeds = 2\ntasks = {json.dumps([f'tasks.py:{name}' for name in names])}")
        return path

    return make


def test_a_task_that_is_wrong_is_an_env_error_beside_the_others(own, tmp_path):
    suite = own("Generous", "Silent", "Fine")
    bench(suite, "--agent", "oracle", "--retries", 0, "--out", tmp_path / "run")
    said = {task: record["outcome_detail"] for (task, _), record in results(tmp_path / "run").items()}
    assert "from 0 to 1, not 2.0" in said["tasks.py:Generous"]
    assert "setup returns its goal as a text, not None" in said["tasks.py:Silent"]
    assert [r["outcome"] for (task, _), r in results(tmp_path / "run").items() if "Fine" in task] == ["solved"] * 2
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert (report["overall"]["strict"]["mean"], report["overall"]["env_errors"]) == (1.0, 4)
    assert {len(r["answer"]) for r in results(tmp_path / "run").values() if r["outcome"] == "solved"} == {2000}


@pytest.mark.slow
def test_what_stands_beside_a_task_that_kills_its_worker_pays_nothing_for_it(own, tmp_path):
    bench(own("Deadly", "Fine"), "--agent", "oracle", "--retries", 0, "--out", tmp_path / "run")
    for (task, _), record in results(tmp_path / "run").items():
        assert record["attempts"] == 1
        assert record["outcome"] == ("env_error" if "Deadly" in task else "solved")


@pytest.mark.slow
def test_an_agent_that_ends_its_process_has_failed(own, tmp_path):
    (tmp_path / "quitter.py").write_text(
        "import os, sys\n"
        "class Polite:\n    def act(self, obs):\n        sys.exit(3)\n"
        "class Rude:\n    def act(self, obs):\n        print('A' * 1000)\n        os._exit(3)\n"
    )
    for name, said in (("Polite", "raised SystemExit: 3"), ("Rude", "ended with exit code 3 each time that the agent")):
        words = ("--agent", f"{tmp_path}/quitter.py:{name}", "--retries", 1, "--seeds", 1, "--json")
        run = bench(own("Fine"), *words, "--out", tmp_path / name)
        assert json.loads(run.stdout)["overall"]["strict"]["mean"] == 0
        (record,) = results(tmp_path / name).values()
        assert (record["outcome"], record["agent_raised"]) == ("failed", True)
        assert said in record["outcome_detail"]


def test_a_run_is_not_gone_on_with_when_its_tasks_have_changed(own, tmp_path):
    suite = own("Fine")
    bench(suite, "--agent", "oracle", "--out", tmp_path / "run")
    (tmp_path / "tasks.py").write_text(TASKS.replace("return 1.0", "return 0.0"))
    refused = bench(suite, "--agent", "oracle", "--out", tmp_path / "run", code=2)
    assert "another run; not the same: tasks." in refused.stderr
    assert "which is not a folder" in bench(own("Nowhere"), "--out", tmp_path / "other", code=2).stderr


def test_a_folder_that_can_not_be_written_stops_the_run(own, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.lock").touch()
    suite = own("Fine")
    about = bench(suite, "--agent", "oracle", "--out", tmp_path / "model")
    assert about.returncode == 0
    (tmp_path / "run" / "run.json").write_text((tmp_path / "model" / "run.json").read_text())
    (tmp_path / "run" / "episodes").write_text("")  # a file where a folder is to be
    stopped = bench(suite, "--agent", "oracle", "--out", tmp_path / "run", code=1)
    assert "can't be written" in stopped.stderr
    assert not (tmp_path / "run" / "results.jsonl").read_text()
