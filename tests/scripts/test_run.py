"""`selfsurf run` with agents that need no model, in this process and as a process of its own that gets real signals."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from selfsurf.scripts.cli import app
from selfsurf.scripts.terminal import live
from selfsurf.scripts.terminal.interrupts import Interrupts
from selfsurf.scripts.terminal.limits import Limits
from tests.browser_env.conftest import loopback  # noqa: F401  (a fixture)
from tests.processes import browsers, descendants, gone, until

PAGE = "data:text/html,<title>Shop</title><h1>Welcome</h1><button>Buy</button>"
TASK = "MiniWoB/click-test-v0"
SERVER = ["--backend", "openai", "--model", "m", "--set", "base_url=http://127.0.0.1:9/v1"]

POLICIES = """
import time
from pathlib import Path

from selfsurf.agents.policy import Completion, PolicyError


class Base:
    name, guidance, sees_images, prompt_budget = "own", "none", False, 2000
    parameter_count = context_length = None

    def __init__(self, marker="", reply='{"finish":"blue"}', fail_after=0):
        self.marker, self.reply, self.fail_after, self.calls = marker, reply, fail_after, 0

    def count_tokens(self, text):
        return len(text)

    def count_prompt_tokens(self, messages, prefill=""):
        return 10

    def complete(self, conversations, **options):
        self.calls += 1
        if self.fail_after and self.calls > self.fail_after:
            raise PolicyError("The server at http://model.test is overloaded.")
        return [Completion(self.reply, [1, 2, 3], [4, 5], [], None, "eos") for _ in conversations]

    def close(self):
        if self.marker:
            Path(self.marker).write_text("closed")


class Broken(Base):
    def complete(self, conversations, **options):
        if self.calls:
            raise KeyError("colour")
        return super().complete(conversations)


class Slow(Base):
    def complete(self, conversations, **options):
        Path(self.marker).write_text("thinking")
        time.sleep(60)
"""


@pytest.fixture
def policies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a module of policies, for this process and its children."""
    (tmp_path / "own_policies.py").write_text(POLICIES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    yield "own_policies"
    sys.modules.pop("own_policies", None)


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., tuple[Result, dict[str, Any], list[dict[str, Any]]]]:
    """Runs the command in this process; returns its result, `episode.json` and the steps."""

    def call(*arguments: str) -> tuple[Result, dict[str, Any], list[dict[str, Any]]]:
        out = tmp_path / "episode"
        result = CliRunner().invoke(app, ["run", *arguments, "--out", str(out)])
        meta = json.loads((out / "episode.json").read_text())
        return result, meta, [json.loads(line) for line in (out / "steps.jsonl").read_text().splitlines()]

    return call


@pytest.fixture
def site() -> Iterator[tuple[str, threading.Event]]:
    """A site whose page /silent never answers: its address, and whether that page has been asked for."""
    asked, over = threading.Event(), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/silent":
                asked.set()
                over.wait(60)
                return
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<title>Shop</title><button>Buy</button>")

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    over.set()
    server.shutdown()
    server.server_close()


def test_the_oracle_solves_a_task_and_json_is_all_there_is(run: Any) -> None:
    result, meta, steps = run("--task", TASK, "--backend", "oracle", "--json")
    assert result.exit_code == 0, result.output
    said = json.loads(result.output)  # error stream included
    assert (said["outcome"], said["reward"], said["steps"], said["error"]) == ("solved", 1.0, 1, "")
    assert (meta["outcome"], meta["agent"], meta["model"], meta["trainable"]) == ("solved", "oracle", None, True)
    assert meta["goal"]
    assert meta["goal"] == steps[0]["observation"]["goal"]
    assert steps[0]["completions"] == []
    assert steps[0]["privileged"]["action"]["action"] == "click"


def test_an_own_policy_answers_a_goal_and_is_closed(run: Any, policies: str, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    result, meta, steps = run(
        "--goal", "What colour?", "--url", PAGE, "--backend", f"{policies}:Base", "--set", f"marker={marker}",
        "--set", "guards=false",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(
        "The agent says that it is done: blue\nNobody has judged the episode: selfsurf judge "
    )
    for shown in ("Opening the page", "1/10", '{"action": "finish", "answer": "blue"}', '"Shop"', "3+2 tokens"):
        assert shown in result.stderr
    assert (meta["outcome"], meta["model"]) == ("stopped", "own")
    assert steps[0]["completions"][0]["token_ids"] == [4, 5]
    assert marker.read_text() == "closed"


def test_a_model_that_cannot_be_asked_ends_the_episode_as_env_error(run: Any, policies: str) -> None:
    result, meta, steps = run(
        "--goal", "Look.", "--url", PAGE, "--backend", f"{policies}:Base", "--set", "fail_after=1",
        "--set", f"reply={json.dumps(json.dumps({'wait': 1}))}", "--json",
    )  # fmt: skip
    assert result.exit_code == 1
    said = json.loads(result.output)
    assert said["error"] == meta["outcome_detail"] == "The server at http://model.test is overloaded."
    assert (said["outcome"], meta["trainable"], len(steps)) == ("env_error", False, 1)


def test_a_page_that_cannot_be_opened_is_an_env_error(run: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    result, meta, steps = run("--goal", "Look.", "--url", f"http://127.0.0.1:{port}/", "--backend", "random")
    assert result.exit_code == 1
    assert (meta["outcome"], meta["trainable"], steps) == ("env_error", False, [])
    assert "REFUSED" in meta["outcome_detail"]
    assert "REFUSED" in result.stderr


def test_what_it_does_to_the_page_is_logged_as_attempts_under_the_episodes_id(run: Any, tmp_path: Path) -> None:
    _, meta, steps = run("--task", TASK, "--agent", "oracle", "--attempt-log", str(tmp_path / "logs"), "--json")
    (folder,) = (tmp_path / "logs").glob("browser-automation/*/*")
    assert folder.name == meta["traceId"]
    until(lambda: (folder / "summary.json").exists(), 10)
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["traceId"], summary["decision"], len(steps)) == (meta["traceId"], "solved", 1)
    start, success = [json.loads(line) for line in (folder / "attempt.jsonl").read_text().splitlines()]
    assert (start["outcome"], success["outcome"], success["url"]) == ("start", "success", meta["final"]["url"])
    assert start["arguments"]["action"] == {"action": "click", "id": steps[0]["actions"][0]["id"]}
    assert (folder / success["artifacts"][0]).stat().st_size > 500


def test_the_log_says_why_a_start_page_could_not_be_opened(run: Any, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    address = ("--goal", "Look.", "--url", f"http://127.0.0.1:{port}/", "--agent", "random")
    _, meta, _ = run(*address, "--attempt-log", str(tmp_path / "logs"))
    (folder,) = (tmp_path / "logs").glob("browser-automation/*/*")
    until(lambda: (folder / "summary.json").exists(), 10)
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["traceId"], summary["decision"], summary["attempts"]) == (meta["traceId"], "env_error", 0)
    assert "REFUSED" in summary["reason"]
    assert "REFUSED" in meta["outcome_detail"]


def test_a_page_answered_with_an_error_says_so_everywhere(
    run: Any,
    tmp_path: Path,
    loopback: Callable[..., Any],  # noqa: F811
) -> None:
    url = loopback(lambda request: (int(request.path[1:]), {}, b"<title>Sorry</title>No.")).url
    script = json.dumps([{"action": "navigate", "url": f"{url}/500"}, {"action": "navigate", "url": f"{url}/200"}])
    given = ("--agent", "scripted", "--set", f"actions={script}", "--attempt-log", str(tmp_path / "logs"))
    result, _, _ = run("--goal", "Look.", "--url", f"{url}/404", *given, "--max-steps", "2")
    assert f"The start page returned HTTP status 404: {url}/404" in result.stderr
    assert f'{url}/500 (500) "Sorry"' in result.stderr
    assert f'{url}/200 "Sorry"' in result.stderr
    assert result.stdout.startswith("timeout. The start page returned HTTP status 404.")
    (folder,) = (tmp_path / "logs").glob("browser-automation/*/*")
    until(lambda: (folder / "summary.json").exists(), 10)
    lines = [json.loads(line) for line in (folder / "attempt.jsonl").read_text().splitlines()]
    ends = [(line["outcome"], line.get("status")) for line in lines if line["outcome"] != "start"]
    assert ends == [("success", 500), ("success", None)]
    shutil.rmtree(tmp_path / "episode")
    said = json.loads(run("--goal", "Look.", "--url", f"{url}/404", *given, "--json")[0].stdout)
    assert (said["start_status"], said["max_steps"]) == (404, 10)


def test_the_log_of_an_open_goal_that_the_agent_says_is_done_ends_as_done(run: Any, tmp_path: Path) -> None:
    script = 'actions=[{"action":"finish","answer":"Seen."}]'
    page = ("--url", "data:text/html,<h1>News</h1>", "--attempt-log", str(tmp_path / "logs"))
    _, meta, _ = run("--goal", "Look.", *page, "--agent", "scripted", "--set", script)
    (folder,) = (tmp_path / "logs").glob("browser-automation/*/*")
    assert until(lambda: (folder / "summary.json").exists(), 10)
    assert (meta["outcome"], json.loads((folder / "summary.json").read_text())["decision"]) == ("stopped", "done")


def test_a_page_that_could_not_be_opened_has_no_status(
    run: Any,
    loopback: Callable[..., Any],  # noqa: F811
) -> None:
    url = loopback(lambda request: (500, {}, b"No.")).url
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = f"http://127.0.0.1:{server.getsockname()[1]}/"
    script = json.dumps([{"action": "navigate", "url": closed}])
    given = ("--agent", "scripted", "--set", f"actions={script}", "--max-steps", "1", "--allowed", "127.0.0.1")
    result, *_ = run("--goal", "Look.", "--url", url, *given)
    assert f"The start page returned HTTP status 500: {url}" in result.stderr
    assert "chrome-error://chromewebdata/" in result.stderr
    assert "chromewebdata/ (500)" not in result.stderr


OWN_TASK = """
from selfsurf.browser_env import Score, Task

class Shop(Task):
    goal = "Buy it."
    start_must_succeed = True

    async def score(self, page, episode):
        return Score(0.0, details={"reason": "Nothing is in the basket."})
"""


def test_the_tasks_reason_and_the_limit_that_it_does_not_set_are_said(
    run: Any,
    tmp_path: Path,
    loopback: Callable[..., Any],  # noqa: F811
) -> None:
    url = loopback(lambda request: (500 if request.path == "/down" else 200, {}, b"<button>Buy</button>")).url
    (tmp_path / "shop.py").write_text(OWN_TASK)
    script = ("--agent", "scripted", "--set", f"actions={json.dumps([{'action': 'wait', 'ms': 1}] * 10)}")
    task = f"{tmp_path}/shop.py:Shop?start_url={url}/"
    result, _, steps = run("--task", task, *script)
    assert len(steps) == 10
    first, *more, _, _ = result.stdout.splitlines()
    limit = "The limit of 10 steps was reached, because the task sets no limit. Use --max-steps to set another."
    assert (first, more) == ("timeout.", ["Nothing is in the basket.", limit])
    shutil.rmtree(tmp_path / "episode")
    said = json.loads(run("--task", task, *script, "--max-steps", "1", "--json")[0].stdout)
    assert (said["reason"], said["max_steps"]) == ("Nothing is in the basket.", 1)
    shutil.rmtree(tmp_path / "episode")
    _, meta, _ = run("--task", f"{task}down", *script)
    assert (meta["outcome"], "the server answered with 500" in meta["outcome_detail"]) == ("env_error", True)


def test_the_step_limit_ends_it(run: Any) -> None:
    script = 'actions=[{"action":"message","text":"At work."},{"action":"wait","ms":1}]'
    result, meta, steps = run(
        "--goal", "Wait.", "--url", PAGE, "--backend", "scripted", "--set", script, "--max-steps", "1"
    )
    assert (result.exit_code, meta["outcome"], len(steps)) == (1, "timeout", 1)
    assert "timeout. At work." not in result.output, "it is no answer"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--backend", "gpt"], "Unknown agent 'gpt'"),
        (["--backend", "random", "--model", "smollm2"], "has no option model; it has seed"),
        (["--set", "colour=blue"], "has no option colour; it has model,"),
        (["--set", "colour"], "give name=value"),
        (["--backend", "tensorrt"], "needs tensorrt_llm"),
        (["--backend", "no_such_module:Policy"], "no_such_module"),
        (["--set", "vision=foo"], "vision=\"foo\": should be 'auto', 'none', 'screenshot' or 'marks'"),
        (["--set", "temperature=hot"], 'temperature="hot": should be a valid number'),
        (["--set", "temperature=-1"], "should be greater than or equal to 0"),
        (["--set", "guards=2"], "should be a valid boolean or should be a valid array"),
        (["--set", 'guards=["lop"]'], "Unknown guards ['lop']: choose from vanished,"),
        (["--set", "max_new_tokens=true"], "should be a valid integer"),
        (["--set", "max_prompt_tokens=none"], "should be a valid integer or should be 'auto', or null"),
        (["--set", 'actions=["clik"]'], "Unknown actions ['clik']: choose from click, fill,"),
        (["--set", "reuse=-5"], "should be greater than or equal to 0, or null"),
        (["--set", "dtype=int8"], "use auto, bf16, fp16 or fp32"),
        (["--set", "device=tpu"], "use auto, cpu, cuda, cuda:1 or mps"),
        (["--set", "quantization=int8"], "should be 'nf4', or null"),
        (["--adapter", "/no/adapter"], "There is no LoRA adapter at /no/adapter"),
        (["--model", "/no/model"], "There is no model folder at /no/model"),
        (
            ["--backend", "mlx", "--set", "dtype=int8"],
            "should be 'float32', 'bfloat16' or 'float16' or should be 'auto'",
        ),
        (["--backend", "mlx", "--adapter", "/no/adapter"], "There is no LoRA adapter at /no/adapter"),
        (["--backend", "openai"], "The agent openai needs the option model."),
        ([*SERVER[:-1], "endpoint=foo"], "Unknown endpoint 'foo': choose from openai, nim,"),
        ([*SERVER[:-1], "endpoint=nim"], "needs a key: set NVIDIA_API_KEY"),
        ([*SERVER[:-1], "base_url=http://host:port/v1"], "an address such as http://localhost:8000/v1"),
        ([*SERVER, "--set", "prices=5"], "prices=5: should be"),
        ([*SERVER, "--set", 'prices={"in": 5}'], 'such as {"input": 0.15, "output": 0.6}'),
        ([*SERVER, "--set", "timeout=0"], "should be greater than 0"),
        ([*SERVER, "--set", "guidance=none", "--set", "constrained=true"], "does not support constrained replies"),
        (["--backend", "scripted"], "scripted needs the option actions"),
        (["--backend", "scripted", "--set", 'actions=[{"action":"clik"}]'], "did you mean click?"),
        (["--backend", "random", "--set", "seed=x"], "should be a valid integer"),
        (["--backend", "oracle", "--set", "x=1"], "oracle has no options"),
    ],
)
def test_wrong_options_are_named_and_leave_no_episode(
    arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("OPENAI_API_KEY", "NVIDIA_API_KEY"):
        monkeypatch.delenv(key, raising=False)
    out = tmp_path / "episode"
    result = CliRunner().invoke(app, ["run", "--task", TASK, *arguments, "--out", str(out)])
    assert result.exit_code == 2, result.output
    assert says in " ".join(result.output.replace("│", " ").split())
    assert not out.exists()


def test_all_that_is_wrong_is_said_at_once_and_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELFSURF_BROWSER", "/nonexistent")
    (taken := tmp_path / "taken").write_text("")
    words = ["run", "--task", "MiniWoB/click-tset-v0", "--agent", "nobody", "--out", str(taken)]
    result = CliRunner().invoke(app, words, env={"COLUMNS": "400"})
    assert result.exit_code == 2
    said = [
        result.output.index(text)
        for text in ("did you mean MiniWoB/click-test-v0?", "Unknown agent 'nobody'", "is a file", "'/nonexistent'")
    ]
    assert said == sorted(said)
    out = tmp_path / "episode"
    alone = CliRunner().invoke(app, ["run", "--task", TASK, "--agent", "random", "--out", str(out)])
    assert alone.exit_code == 2
    assert "SELFSURF_BROWSER is '/nonexistent'" in " ".join(alone.output.replace("│", " ").split())
    assert not out.exists()


@pytest.mark.parametrize("command", [["run", "--task", TASK, "--agent", "random"], ["record", "--task", TASK]])
def test_a_folder_with_something_else_is_left_alone(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "thesis.tex").write_text("Long.")
    result = CliRunner().invoke(app, [*command, "--out", str(tmp_path)], env={"COLUMNS": "400"})
    assert (result.exit_code, "holds other files (thesis.tex)" in result.output) == (2, True), result.output
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_browser_that_does_not_start_leaves_no_episode(tmp_path: Path) -> None:
    broken = tmp_path / "chromium"
    broken.write_text("#!/bin/sh\necho 'Invalid file descriptor to ICU data received.' >&2\nexit 1\n")
    broken.chmod(0o755)
    words = ["run", "--task", TASK, "--agent", "random", "--out", str(tmp_path / "episode")]
    done = subprocess.run(
        [sys.executable, "-m", "selfsurf.scripts.cli", *words],
        env={**os.environ, "SELFSURF_BROWSER": str(broken)}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    assert "did not start: Invalid file descriptor to ICU data received." in " ".join(done.stderr.split())
    assert not (tmp_path / "episode").exists()


def test_an_unguided_policy_is_not_constrained(policies: str, tmp_path: Path) -> None:
    out = tmp_path / "episode"
    arguments = ["--url", PAGE, "--goal", "Look.", "--backend", f"{policies}:Base", "--set", "constrained=true"]
    result = CliRunner().invoke(app, ["run", *arguments, "--out", str(out)])
    assert result.exit_code == 2, result.output
    assert "own does not support constrained replies" in result.output
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--url", "notaurl"], "--url must be an address"),
        (["--task", TASK], "Give --task, --goal or --spec"),
        (["--url", PAGE, "--agent", "random", "--backend", "oracle"], "given twice"),
        (["--url", PAGE, "--agent", "random", "--set", "seed=1", "--set", "seed=2"], "seed is given twice"),
        (["--url", PAGE, "--name", "a/b"], "use --out for a path"),
        (["--url", PAGE, "--name", "a", "--out", "b"], "Give --out or --name"),
        (["--url", "localhost:80/shop"], "--url must be an address"),
        (["--url", PAGE, "--backend", "oracle"], "There is no oracle for this"),
        (["--url", PAGE, "--backend", "random", "--out", __file__], "is a file"),
    ],
)
def test_what_can_not_be_opened_or_written_is_named(arguments: list[str], says: str) -> None:
    result = CliRunner().invoke(app, ["run", "--goal", "Look.", *arguments])
    assert result.exit_code == 2, result.output
    assert says in " ".join(result.output.replace("│", " ").split())


def test_an_episode_is_not_written_over(run: Any, tmp_path: Path) -> None:
    run("--task", TASK, "--backend", "oracle")
    before = (tmp_path / "episode" / "steps.jsonl").read_text()
    again, _, _ = run("--task", TASK, "--backend", "oracle")
    assert again.exit_code == 2
    assert "already holds an episode" in again.output
    assert (tmp_path / "episode" / "steps.jsonl").read_text() == before


def test_an_agent_that_raises_has_failed_and_its_traceback_is_kept(run: Any, policies: str) -> None:
    reply = f"reply={json.dumps(json.dumps({'wait': 1}))}"
    result, meta, steps = run("--goal", "Look.", "--url", PAGE, "--backend", f"{policies}:Broken", "--set", reply)
    assert result.exit_code == 1
    assert result.stdout.startswith("failed.")
    assert (meta["outcome"], meta["trainable"], len(steps)) == ("failed", False, 1)
    assert meta["outcome_detail"] == "the agent raised KeyError: 'colour'"
    assert "own_policies.py" in meta["traceback"]
    assert "KeyError: 'colour'\n  ...\n" in result.stderr  # the end of the traceback alone
    assert 'raise KeyError("colour")' in result.stderr
    folder = Path(result.stdout.split("Episode: ")[1].strip())
    shown = CliRunner().invoke(app, ["view", str(folder)]).output
    assert "the agent's own error" in shown
    assert "not the agent's doing" not in shown
    assert 'raise KeyError("colour")' in shown
    assert "query_policy.py" not in shown
    assert "query_policy.py" in CliRunner().invoke(app, ["view", str(folder), "--full"]).output


def test_an_agent_that_can_not_be_made_leaves_no_episode(tmp_path: Path) -> None:
    (tmp_path / "unmade.py").write_text("class Agent:\n    act = None\n    def __init__(self):\n        {}['colour']\n")
    out = tmp_path / "episode"
    agent = ["--agent", f"{tmp_path}/unmade.py:Agent", "--out", str(out)]
    result = CliRunner().invoke(app, ["run", "--task", TASK, *agent])
    assert result.exit_code == 1
    assert "The agent can't be made: KeyError: 'colour'" in result.stderr
    assert "{}['colour']" in result.stderr
    assert not out.exists()


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts the command as a process, at the head of its own group as a shell would."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        command = [
            sys.executable,
            "-m",
            "selfsurf.scripts.cli",
            "run",
            *arguments,
            "--out",
            str(tmp_path / "episode"),
            "--json",
        ]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        started.append(subprocess.Popen(command, **pipes, env=environment, start_new_session=True))
        return started[-1]

    yield start
    for one in started:
        for below in [*descendants(one.pid), one] if one.poll() is None else []:
            below.kill()


def interrupted(
    process: subprocess.Popen[str], folder: Path, times: int = 1, number: signal.Signals = signal.SIGINT
) -> dict[str, Any]:
    """Press Ctrl-C, as a terminal does: for the whole group. A SIGTERM is the process's own. Returns `episode.json`."""
    below = descendants(process.pid)
    for _ in range(times):
        (os.killpg if number is signal.SIGINT else os.kill)(process.pid, number)
        time.sleep(0.05 if times > 1 else 0)
    said, complained = process.communicate(timeout=60)
    assert process.returncode == 128 + number, complained
    assert "Traceback" not in complained
    assert gone(below)
    meta: dict[str, Any] = json.loads((folder / "episode.json").read_text())
    assert json.loads(said)["outcome"] == meta["outcome"] == "stopped"
    assert (meta["trainable"], meta["outcome_detail"]) == (False, "")
    assert meta["ended"] >= meta["started"]
    return meta


SWEEP = [pytest.param(tenths / 10, marks=pytest.mark.slow) for tenths in range(0, 80, 5)]
"""Seconds after the beginning: importing, loading, starting the browser, opening the page, thinking."""


@pytest.mark.parametrize("seconds", [pytest.param(0.7, marks=pytest.mark.slow), *SWEEP])
def test_ctrl_c_from_loading_on(process: Any, tmp_path: Path, seconds: float) -> None:
    started = process("--task", "MiniWoB/click-checkboxes-v0", "--model", "smollm2", "--max-steps", "40")
    assert until((tmp_path / "episode" / "steps.jsonl").exists, 60)
    time.sleep(seconds)
    if seconds != 0.7 and started.poll() is not None:
        pytest.skip("It was over by then.")
    assert interrupted(started, tmp_path / "episode")["totals"]["steps"] < 40


@pytest.mark.slow
def test_ctrl_c_while_the_page_is_opened(process: Any, tmp_path: Path, site: Any) -> None:
    address, asked = site
    started = process("--goal", "Look.", "--url", f"{address}/silent", "--backend", "random")
    assert asked.wait(60)
    assert browsers(descendants(started.pid))
    interrupted(started, tmp_path / "episode", times=3)


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM])
def test_stopped_while_the_agent_thinks(process: Any, tmp_path: Path, policies: str, number: signal.Signals) -> None:
    marker = tmp_path / "marker"
    started = process("--goal", "Look.", "--url", PAGE, "--backend", f"{policies}:Slow", "--set", f"marker={marker}")
    assert until(marker.exists, 60)
    meta = interrupted(started, tmp_path / "episode", number=number)
    assert (meta["goal"], meta["final"]["title"]) == ("Look.", "Shop")
    assert marker.read_text() == "closed"


def test_ctrl_c_while_it_acts(process: Any, tmp_path: Path, site: Any) -> None:
    address, asked = site
    script = json.dumps([{"action": "wait", "ms": 1}, {"action": "navigate", "url": f"{address}/silent"}])
    started = process("--goal", "Look.", "--url", address, "--backend", "scripted", "--set", f"actions={script}")
    assert asked.wait(60)
    meta = interrupted(started, tmp_path / "episode")
    assert (meta["totals"]["steps"], meta["final"]["title"]) == (1, "Shop")


def test_an_interrupt_in_generated_code_keeps_the_exit_code(tmp_path: Path) -> None:
    code = """
import sys
from selfsurf.scripts.terminal.interrupts import Interrupts
with Interrupts() as interrupts:
    try:
        exec("import signal; signal.raise_signal(signal.SIGINT)")
    except KeyboardInterrupt:
        pass
sys.exit(130 if interrupts.seen else 1)
"""
    (tmp_path / "interrupted.py").write_text(code)
    path = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    command = [sys.executable, "-m", "interrupted"]
    assert subprocess.run(command, check=False, env={**os.environ, "PYTHONPATH": path}).returncode == 130


def test_an_interrupt_is_raised_once_and_not_while_held() -> None:
    with Interrupts() as interrupts:
        interrupts.hold()
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            interrupts.release()
        signal.raise_signal(signal.SIGINT)
        assert interrupts.seen
    with Interrupts() as interrupts:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()


def test_time_of_a_person_counts_neither_as_used_nor_against_the_limit() -> None:
    state = live.State("Buy", 7, began=time.monotonic() - 1_000)
    seen = live.View(state)
    seen.pause()
    assert state.paused is not None
    state.paused -= 900  # a quarter of an hour ago
    assert 99 < state.seconds < 101
    seen.go_on()
    assert 99 < state.seconds < 900
    state.check(Limits(max_seconds=900))
    with pytest.raises(live.Stop, match="limit of 99 s"):
        state.check(Limits(max_seconds=99))


@pytest.mark.parametrize(
    "words", [("--max-cost", "0"), ("--set", "nonsense=1"), ("--agent", "missing.py:Agent")], ids=str
)
def test_what_happens_to_risky_actions_is_not_told_before_an_error(words: tuple[str, str]) -> None:
    result = CliRunner().invoke(
        app, ["run", "--url", "http://127.0.0.1:9", "--goal", "Buy", "--agent", "random", *words]
    )
    assert result.exit_code == 2
    assert "carried out without asking" not in result.output


def test_the_panel_shows_what_happens() -> None:
    state = live.State(
        "Buy the blue one", 7, stage="Thinking and acting", step=2, url="http://shop.test/", title="Shop"
    )
    state.outline = "\n".join(f'[{number}] button "B{number}"' for number in range(20))
    state.action, state.error, state.guard = '{"action": "click", "id": 3}', "There is no element 3.", "It vanished."
    state.prompt_tokens, state.sampled_tokens = 812, 14
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=90, height=40)
    seen = live.view(state, console, silent=False)
    assert isinstance(seen, live.Screen)
    with seen:
        seen.stepped()
    for part in (
        "step 2/7  Thinking and acting", "Buy the blue one", 'http://shop.test/ "Shop"', '"id": 3', "no element 3",
        "It vanished.", "812+14 tokens", '[11] button "B11"', "... 8 more lines",
    ):  # fmt: skip
        assert part in shown.getvalue()
    assert "B12" not in shown.getvalue()
    assert type(live.view(state, console, silent=True)) is live.View
    assert isinstance(live.view(state, Console(file=shown), silent=False), live.Lines)


def test_an_agent_that_exits_ends_its_episode(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "leaving.py").write_text("class Leaving:\n    def act(self, obs):\n        raise SystemExit(3)\n")
    monkeypatch.chdir(tmp_path)
    result, meta, _ = run("--goal", "Look.", "--url", PAGE, "--agent", "leaving:Leaving")  # by its name in this folder
    assert result.exit_code == 1, result.output
    assert (meta["outcome"], meta["outcome_detail"]) == ("failed", "the agent raised SystemExit: 3")
