"""`selfsurf bench run` with real workers: what is killed, hangs or raises is run again or typed, and nothing twice."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from selfsurf.scripts.cli import app
from selfsurf.scripts.machine.processes import descendants
from selfsurf.scripts.report.leaderboard import write_leaderboard
from selfsurf.scripts.report.report import write_report
from selfsurf.scripts.suite.records import Records, RecordsError
from tests.agents.policy_server import refusing, serve_raw
from tests.scripts import results_folders

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


def bench(*words, code=0, **environment):
    wide = {**os.environ, "COLUMNS": "400", **environment}  # no line of a message is broken
    run = subprocess.run(command(*words), capture_output=True, text=True, timeout=100, env=wide)
    assert run.returncode == code, run.stderr
    return run


def results(folder):
    lines = (Path(folder) / "results.jsonl").read_text().splitlines()
    records = {(record["task"], record["seed"]): record for record in map(json.loads, lines)}
    assert len(records) == len(lines)
    return records


def lines(folder):
    return [json.loads(line) for line in (Path(folder) / "results.jsonl").read_text().splitlines()]


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


@pytest.mark.slow
def test_a_policy_of_ones_own_acts_through_an_agent_with_options(suite, tmp_path):
    (tmp_path / "policy.py").write_text(POLICY)
    agent = ("--agent", f"{tmp_path / 'policy.py'}:Same", "--set", 'reply="nothing"', "--set", "constrained=false")
    bench(suite, *agent, "--seeds", 1, "--max-steps", 2, "--out", tmp_path / "run")
    for record in results(tmp_path / "run").values():
        assert (record["outcome"], record["steps"]) == ("timeout", 2)
    refused = bench(suite, *agent, "--set", "constrained=3", "--out", tmp_path / "no", code=2)
    assert "constrained=3" in refused.stderr
    assert not (tmp_path / "no").exists()


@pytest.mark.slow
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
    again = bench(suite, "--agent", "oracle", "--out", tmp_path / "run")
    assert "Nothing was run: every episode has a verdict already." in again.stderr
    assert (tmp_path / "run" / "results.jsonl").read_bytes() == before
    bench(suite, "--agent", "oracle", "--seeds", "1-3", "--out", tmp_path / "run")  # one seed more
    assert (tmp_path / "run" / "results.jsonl").read_bytes().startswith(before)
    assert {seed for _, seed in results(tmp_path / "run")} == {0, 1, 2, 3}
    assert json.loads((tmp_path / "run" / "run.json").read_text())["seeds"] == [0, 1, 2, 3]
    failed = bench(suite, "--agent", "random", "--out", tmp_path / "run", code=2)
    assert "a run with other arguments: agent." in failed.stderr


@pytest.mark.slow
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


def test_what_a_model_server_refuses_is_no_failure_of_the_agent(suite, tmp_path):
    with serve_raw(refusing("messages", [])) as url:
        model = ("--agent", "openai", "--model", "m", "--set", f"base_url={url}", "--set", "constrained=true")
        said = bench(suite, *model, "--seeds", 1, "--workers", 1, "--out", tmp_path / "run", code=1).stderr
    assert {record["outcome"] for record in results(tmp_path / "run").values()} == {"env_error"}
    assert said.count("messages is not supported by this model") == 1
    assert "agent's own code" not in said


@pytest.mark.slow
def test_a_worker_that_dies_is_replaced_and_its_episodes_run_again(suite, tmp_path):
    agent = f"{tmp_path}/agents.py:First"
    bench(suite, "--agent", agent, "--set", "dies=1", "--set", f"flag={tmp_path}/flag", "--out", tmp_path / "run")
    records = results(tmp_path / "run")
    assert len(records) == 6
    assert {record["outcome"] for record in records.values()} <= {"solved", "failed"}
    assert {record["attempts"] for record in records.values()} <= {1, 2}


@pytest.mark.slow
def test_an_agent_that_hangs_is_killed_and_typed(suite, tmp_path):
    agent = f"{tmp_path}/agents.py:First"
    words = ("--agent", agent, "--set", "hang=dialog", "--episode-timeout", 4, "--task", "click-dialog")
    bench(suite, *words, "--seeds", 1, "--out", tmp_path / "run")
    for record in results(tmp_path / "run").values():
        assert (record["outcome"], record["outcome_detail"]) == ("timeout", "the agent did not answer within 4 s")


@pytest.mark.slow
def test_a_deadline_ends_a_run_that_goes_on_later(suite, tmp_path):
    words = (suite, "--agent", "oracle", "--out", tmp_path / "run")
    bench(*words, "--deadline", 1, code=1)
    bench(*words)
    assert len(results(tmp_path / "run")) == 6


@pytest.mark.slow
def test_a_part_of_a_larger_run_is_done_when_each_of_its_episodes_has_a_verdict(suite, tmp_path):
    words = (suite, "--agent", "oracle", "--out", tmp_path / "run")
    bench(*words, "--task", "click-dialog", "--seeds", 1)
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    about["seeds"] = [0, 1, 2]  # of a larger run that was ended at once
    (tmp_path / "run" / "run.json").write_text(json.dumps(about))
    part = bench(*words, "--task", "click-dialog", "--seeds", 2)
    assert "INCOMPLETE" not in part.stdout
    assert (
        "Every requested episode has a verdict. The folder holds a larger run: 1 of its 3 episodes have no verdict"
        in (part.stdout)
    )
    assert "click-dialog-v0 #2" in part.stdout


@pytest.mark.slow
def test_with_a_broken_browser_a_run_stops_says_why_and_spoils_nothing(suite, tmp_path):
    words = ("miniwob", "--agent", "oracle", "--seeds", 1, "--group", "webgum", "--out", tmp_path / "run")
    stopped = bench(*words, code=1, SELFSURF_BROWSER="/bin/false")
    assert re.search(
        r"Nothing works: the last 20 attempts ended as env_error, \d+ of them with: The task", stopped.stderr
    )
    assert not lines(tmp_path / "run")
    assert "Nothing works" in json.loads((tmp_path / "run" / "run.json").read_text())["sessions"][0]["stopped"]
    bench(*words[:-2], "--task", "click-test", "--out", tmp_path / "run")
    assert [record["outcome"] for record in lines(tmp_path / "run")] == ["solved"]


def test_what_cannot_be_run_is_said_before_anything_is_begun(suite, tmp_path):
    def said(*words):
        run = CliRunner(env={"COLUMNS": "400"}).invoke(
            app, ["bench", "run", *map(str, words), "--out", str(tmp_path / "run")]
        )
        assert run.exit_code == 2
        return " ".join(run.output.split())

    assert "There is no suite 'nothing': give miniwob" in said("nothing")
    assert "has no split 'val': it has test." in said(suite, "--split", "val")
    assert "has no task 'click-tset'" in said(suite, "--task", "click-tset")
    assert "--seeds 3-1: give a number" in said(suite, "--seeds", "3-1")
    assert "Unknown agent 'nobody'" in said(suite, "--agent", "nobody")
    assert "There is no file" in said(suite, "--agent", "nobody.py:Agent")
    assert "no class 'Second'" in said(suite, "--agent", f"{tmp_path}/agents.py:Second")
    assert "has no option hangs" in said(suite, "--agent", f"{tmp_path}/agents.py:First", "--set", "hangs=1")
    suite.write_text('tasks = [{ id = "shop.py:Buy" }]')
    assert f"There is no file {tmp_path}/shop.py" in said(suite)
    suite.write_text('tasks = [{ task = "x" }]')
    assert "task 1: id is missing" in said(suite)
    assert not (tmp_path / "run").exists()


def test_without_a_browser_nothing_is_begun(suite, tmp_path, monkeypatch):
    monkeypatch.setenv("SELFSURF_BROWSER", "/nonexistent")
    out = str(tmp_path / "run")
    for words in (["bench", "run", str(suite)], ["train", "MiniWoB/click-test-v0"]):
        monkeypatch.setattr("selfsurf.scripts.train.check_model", lambda *_: None)
        run = CliRunner(env={"COLUMNS": "400"}).invoke(app, [*words, "--out", out])
        assert run.exit_code == 2, run.output
        assert "SELFSURF_BROWSER is '/nonexistent'" in run.output
        assert not (tmp_path / "run").exists()


def test_an_interrupted_run_says_how_to_go_on(suite, tmp_path, monkeypatch):
    def interrupted(*_):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)

    monkeypatch.setattr("selfsurf.scripts.suite.evaluate.played", interrupted)
    run = CliRunner(env={"COLUMNS": "400"}).invoke(app, ["bench", "run", str(suite), "--out", str(tmp_path / "run")])
    assert run.exit_code == 130, run.output
    assert "INCOMPLETE: 6 of 6 episodes missing." in run.output
    assert "Interrupted. The same command resumes" in run.output


def test_limits_that_can_not_be_kept_are_refused(suite, tmp_path):
    def said(*words):
        run = CliRunner(env={"COLUMNS": "400"}).invoke(
            app, ["bench", "run", str(suite), *words, "--out", str(tmp_path / "run")]
        )
        assert run.exit_code == 2
        return " ".join(run.output.split())

    assert "limit nothing" in said("--max-tokens", "5")
    assert "needs the model's prices" in said("--agent", "openai", "--model", "m", "--max-cost", "1")
    assert "report_to takes tensorboard" in said("--report-to", "paper")
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
    lost = {**record, "outcome": "env_error"}
    path.write_text("".join(json.dumps(each) + "\n" for each in (lost, lost)))
    with Records(tmp_path / "run", about) as records:
        assert records.open(("t", 0))
        assert records.add(lost)
        assert not records.open(("t", 0))  # run again twice
    path.write_text(2 * (json.dumps(record) + "\n"))
    with pytest.raises(RecordsError, match="twice"):
        Records(tmp_path / "run", about)
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path):
        with pytest.raises(RecordsError, match="give"):
            Records(folder, about)


def test_what_differs_from_the_run_in_a_folder_is_named(tmp_path):
    agent = {"name": "transformers", "options": {"adapter": "a", "guards": False}, "adapter_sha256": "1"}
    about = {"format": 1, "suite": "s", "agent": agent, "tasks": [{"id": "t"}], "seeds": [0], "max_steps": None}
    Records(tmp_path / "run", about).__exit__()
    now = {**agent, "options": {"adapter": "a", "actions": ["click"]}, "adapter_sha256": "2"}
    with pytest.raises(RecordsError) as refused:
        Records(tmp_path / "run", {**about, "agent": now, "max_steps": 3, "environment": {"locale": "de"}})
    assert (
        "other arguments: agent.options.guards (was false, is not given), agent.options.actions (was not given, is "
        '["click"]), agent.adapter_sha256, max_steps (was not given, is 3), '
        'environment.locale (was not given, is "de"). Give'
    ) in str(refused.value)


def test_a_session_by_another_version_is_noted_and_shown_in_report_and_leaderboard(tmp_path):
    head = {
        **results_folders.run({"t": ("", [])}, [0, 1]), "versions": {"selfsurf": "0.1.0", "torch": "2"},
        "git": {"revision": "a" * 40, "dirty": False},
    }  # fmt: skip
    later = {**head, "versions": {"selfsurf": "0.2.0", "torch": "2"}, "git": {"revision": "b" * 40, "dirty": True}}
    for seed, about in enumerate((head, later)):
        with Records(tmp_path / "run", about) as records:
            records.begin({"workers": 1})
            records.add(results_folders.line("t", seed))
    first, second = json.loads((tmp_path / "run" / "run.json").read_text())["sessions"]
    assert "versions" not in first
    assert second["versions"] == later["versions"]
    write_report(tmp_path / "run")
    text = (tmp_path / "run" / "report.md").read_text()
    assert "Versions: selfsurf 0.1.0, torch 2; session 2: selfsurf 0.2.0\n" in text
    assert f"Git: {'a' * 40}; session 2: {'b' * 40}, with uncommitted changes\n" in text
    write_leaderboard([tmp_path / "run"], tmp_path)
    assert "aaaaaaaa, bbbbbbbb + changes" in (tmp_path / "leaderboard.md").read_text()


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


@pytest.mark.slow
def test_one_kill_leaves_nothing_behind_and_nothing_lost(tmp_path):
    words = ("miniwob", "--agent", "random", "--task", "click-dialog", "--seeds", 10, "--max-steps", 3)
    folder = tmp_path / "run"
    assert killed(folder, (*words, "--out", folder), 4, 0.1)
    bench(*words, "--out", folder)
    assert len(results(folder)) == 10


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


class Broken(Base):
    def judge(self):
        if not Path(__file__).with_name("mended").exists():
            return 1 / 0
        return 1.0


class Mortal(Base):
    async def score(self, page, episode):
        session = await page.context.new_cdp_session(page)
        await session.send("Page.crash")


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


@pytest.mark.slow
def test_a_task_that_is_wrong_is_an_env_error_beside_the_others(own, tmp_path):
    suite = own("Generous", "Silent", "Fine")
    run = bench(suite, "--agent", "oracle", "--retries", 0, "--out", tmp_path / "run", code=1)
    assert "4 episodes ended as env_error and have no verdict." in run.stderr
    assert "  2 x the task's score raised ValueError: A task's reward must be a number from 0 to 1, not" in run.stderr
    assert "The same command runs them again." in run.stderr
    said = {task: record["outcome_detail"] for (task, _), record in results(tmp_path / "run").items()}
    assert "from 0 to 1, not 2.0" in said["tasks.py:Generous"]
    assert "setup must return the goal as a string, not None" in said["tasks.py:Silent"]
    assert [r["outcome"] for (task, _), r in results(tmp_path / "run").items() if "Fine" in task] == ["solved"] * 2
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert (report["overall"]["strict"]["mean"], report["overall"]["env_errors"]) == (1.0, 4)
    assert {len(r["answer"]) for r in results(tmp_path / "run").values() if r["outcome"] == "solved"} == {2000}


@pytest.mark.slow
def test_what_stands_beside_a_task_that_kills_its_worker_pays_nothing_for_it(own, tmp_path):
    bench(own("Deadly", "Fine"), "--agent", "oracle", "--retries", 0, "--out", tmp_path / "run", code=1)
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


@pytest.mark.slow
def test_a_run_is_not_gone_on_with_when_its_tasks_have_changed(own, tmp_path):
    suite = own("Fine")
    bench(suite, "--agent", "oracle", "--out", tmp_path / "run")
    (tmp_path / "tasks.py").write_text(TASKS.replace("return 1.0", "return 0.0"))
    refused = bench(suite, "--agent", "oracle", "--out", tmp_path / "run", code=2)
    assert "a run with other arguments: the task tasks.py:Fine." in refused.stderr
    assert "which is not a folder" in bench(own("Nowhere"), "--out", tmp_path / "other", code=2).stderr


@pytest.mark.slow
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


@pytest.mark.slow
def test_an_error_of_a_task_keeps_its_traceback_and_a_later_command_runs_it_again(own, tmp_path):
    words = (own("Broken", "Fine"), "--agent", "oracle", "--retries", 0, "--out", tmp_path / "run")
    first = bench(*words, code=1)
    assert "2 x the task's score raised ZeroDivisionError: division by zero (tasks.py, line " in first.stderr
    assert "solved" in {record["outcome"] for record in lines(tmp_path / "run")}
    lost = [record for record in lines(tmp_path / "run") if record["outcome"] == "env_error"]
    assert [(record["env_errors"], record["crashes"]) for record in lost] == [(1, 0)] * 2
    for record in lost:
        assert "return 1 / 0" in record["traceback"]
        episode = json.loads((tmp_path / "run" / record["episode"] / "episode.json").read_text())
        assert "return 1 / 0" in episode["traceback"]
    (tmp_path / "mended").touch()
    bench(*words)
    assert len(lines(tmp_path / "run")) == 6
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert (report["overall"]["episodes"], report["overall"]["solved"], report["overall"]["env_errors"]) == (4, 4, 0)
    assert len(report["superseded"]) == 2
    assert "Superseded (2, run again by a later command)" in (tmp_path / "run" / "report.md").read_text()


@pytest.mark.slow
def test_an_agent_whose_page_crashes_at_every_attempt_has_failed(own, tmp_path):
    bench(own("Mortal", "Fine"), "--agent", "oracle", "--seeds", 1, "--out", tmp_path / "run")
    killed = results(tmp_path / "run")["tasks.py:Mortal", 0]
    assert (killed["outcome"], killed["env_errors"], killed["crashes"]) == ("failed", 3, 3)
    assert "env_error in 3 attempts during the agent's action: the page crashed" in killed["outcome_detail"]
    assert "Judged after an env" in (tmp_path / "run" / "report.md").read_text()


@pytest.mark.slow
def test_a_limit_of_tokens_or_money_ends_a_run_that_goes_on_later(suite, tmp_path):
    (tmp_path / "policy.py").write_text(
        POLICY.replace(
            "from selfsurf.agents.policy import",
            """
from selfsurf.agents.policy import Usage
from selfsurf.agents.policy import""",
        ).replace(
            'finish_reason="eos")',
            """finish_reason="eos",
                           usage=Usage(prompt_tokens=90, completion_tokens=10, cost=0.5))""",
        )
    )
    agent = ("--agent", f"{tmp_path / 'policy.py'}:Same", "--set", "reply=nothing", "--set", "constrained=false")
    words = (suite, *agent, "--max-steps", 1, "--workers", 1, "--out", tmp_path / "run")
    first = bench(*words, "--max-tokens", 200, code=1)
    assert "The limit of 200 tokens is reached (200)." in first.stderr
    assert len(lines(tmp_path / "run")) == 2
    assert "The limit of $0.9 is reached ($1.0000)." in bench(*words, "--max-cost", 0.9, code=1).stderr
    bench(*words)
    assert len(results(tmp_path / "run")) == 6
