"""The environment's options by the commands themselves: on loopback sites, at a terminal, in worker processes."""

from __future__ import annotations

import base64
import json
import os
import pty
import re
import select
import signal
import socketserver
import subprocess
import sys
import threading
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from selfsurf import agents
from selfsurf.agents.policies.openai.endpoints import ENDPOINTS
from selfsurf.browser_env import shutdown
from selfsurf.browser_env.browser.browsers import find_browser
from selfsurf.browser_env.environment.env_options import EnvironmentSettings
from selfsurf.scripts.cli import app
from selfsurf.scripts.terminal.agent_options import offered
from tests.browser_env.conftest import loopback  # noqa: F401  (a fixture)
from tests.processes import crowd, descendants, gone, until

TASK = "MiniWoB/click-test-v0"
PASSWORD = "correct-horse-battery"
SHOP = b"""<title>Shop</title><input type=password aria-label=Password><button onclick="
  fetch('/bought?' + encodeURIComponent(document.querySelector('input').value)).then(() => document.title = 'Bought')
">Buy now</button>"""
BUY = [
    {"action": "fill", "id": 1, "text": "<secret:password>"},
    {"action": "click", "id": 2},
    {"action": "wait", "ms": 300},
    {"action": "finish"},
]
OWN = """
import os
from selfsurf.browser_env import Click, Score, Task

class Order(Task):
    start_url, goal, max_steps = os.environ["SHOP"], "Buy.", 2
    async def score(self, page, episode):
        done = await page.title() == "Bought"
        return Score(reward=float(done), done=done)
    def oracle(self, obs):
        return Click(id=2)

class Other(Order):
    pass

def answer(question):
    return f"{question.upper()} 7"
"""


@pytest.fixture
def shop(loopback: Any) -> Any:  # noqa: F811
    """A shop that notes what it is asked for, as (path, headers)."""
    asked: list[tuple[str, dict[str, str]]] = []

    def answer(request: Any) -> bytes:
        asked.append((request.path, {name.lower(): value for name, value in request.headers.items()}))
        return SHOP if request.path == "/" else b""

    server = loopback(answer)
    server.asked = asked
    server.bought = lambda: [path for path, _ in asked if path.startswith("/bought")]
    return server


def scripted(*actions: dict[str, Any]) -> list[str]:
    return ["--agent", "scripted", "--set", f"actions={json.dumps(actions)}"]


def written(folder: Path) -> str:
    """All text that a run has left."""
    return "\n".join(path.read_text(errors="replace") for path in sorted(folder.rglob("*")) if path.is_file())


def steps_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "steps.jsonl").read_text().splitlines()]


def said(result: Any) -> str:
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", result.output).split())


def test_a_goal_without_a_page_with_a_secret_a_device_and_a_storage_state(
    shop: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", PASSWORD)
    monkeypatch.setenv("SHOP_HEADERS", '{"X-Shop": "yes"}')
    cookie = {"name": "visits", "value": "nine", "domain": "127.0.0.1", "path": "/", "expires": -1, "httpOnly": False,
              "secure": False, "sameSite": "Lax"}  # fmt: skip
    (tmp_path / "state.json").write_text(json.dumps({"cookies": [cookie], "origins": []}))
    out = tmp_path / "episode"
    result = CliRunner().invoke(app, [
        "run", "--goal", "Buy it.", *scripted({"action": "navigate", "url": f"{shop.url}/"}, *BUY), "--allowed",
        "127.0.0.1", "--secret", "password@127.0.0.1=env:SHOP_PASSWORD", "--device", "iPhone 15", "--storage-state",
        str(tmp_path / "state.json"), "--env-option", "locale=de-DE", "--env-option", "headers=env:SHOP_HEADERS", "--out", str(out),
    ])  # fmt: skip
    assert result.exit_code == 0, result.output
    assert shop.bought() == [f"/bought?{PASSWORD}"]
    headers = dict(shop.asked)["/"]
    assert "iPhone" in headers["user-agent"]
    assert headers["cookie"] == "visits=nine"
    assert headers["x-shop"] == "yes"
    assert headers["accept-language"].startswith("de-DE")
    steps, text = steps_of(out), written(out)
    assert steps[0]["observation"]["url"] == "about:blank"
    assert steps[2]["risk"]["kind"] == "purchase"
    assert steps[2]["risk"]["confirmed"] == "automatically"
    assert PASSWORD not in text + result.output
    assert json.loads((out / "episode.json").read_text())["environment"] == {
        "storage_state": str(tmp_path / "state.json"), "device": "iPhone 15", "allowed": ["127.0.0.1"],
        "secret": ["password@127.0.0.1=env:SHOP_PASSWORD"], "env_option": ["locale=de-DE", "headers=env:SHOP_HEADERS"],
    }  # fmt: skip
    assert "automatically" in CliRunner().invoke(app, ["view", str(out)]).output


@pytest.mark.parametrize(
    ("state", "where"),
    [
        (1, ""),
        ([1], " (cookies.0 is missing or wrong)"),
        ({"origins": []}, " (cookies is missing or wrong)"),
        ({"cookies": [{"name": 1, "value": "x"}]}, " (cookies.0.name is missing or wrong)"),
        ({"cookies": [], "origins": [{"origin": 5}]}, " (origins.0.origin is missing or wrong)"),
    ],
)
def test_a_file_that_holds_no_storage_state_is_refused(tmp_path: Path, state: Any, where: str) -> None:
    (tmp_path / "state.json").write_text(json.dumps(state))
    with pytest.raises(ValueError, match=re.escape(f"as returned by env.unwrapped.storage_state(){where}.")):
        EnvironmentSettings(storage_state=tmp_path / "state.json").options()


def test_a_list_of_cookies_is_a_storage_state_and_a_wrong_cookie_is_named(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    cookie = {"name": "a", "value": "1", "domain": "shop.test", "path": "/"}
    path.write_text(json.dumps([cookie]))
    assert EnvironmentSettings(storage_state=path).options()["session"].storage_state == {"cookies": [cookie]}
    path.write_text(json.dumps([cookie, {"name": "b", "value": "1", "domain": "shop.test"}]))
    with pytest.raises(ValueError, match=re.escape(f"storage_state: {path}: cookie 2 ('b') has no path.")):
        EnvironmentSettings(storage_state=path).options()


@pytest.mark.parametrize("stealth", [False, True])
def test_stealth_reaches_the_page_of_a_run(tmp_path: Path, stealth: bool) -> None:
    page = "data:text/html,<script>document.title = navigator.webdriver</script>"
    command = ["run", "--goal", "Look.", "--url", page, *scripted({"action": "finish"}), "--out", str(tmp_path / "one")]
    result = CliRunner().invoke(app, [*command, *["--stealth"] * stealth])
    assert result.exit_code == 0, result.output
    assert steps_of(tmp_path / "one")[0]["observation"]["title"] == ("false" if stealth else "true")


def test_a_model_may_ask_where_somebody_answers() -> None:
    assert offered("transformers", {}, ["ask_user"]) == {"more_actions": ["ask_user"]}
    assert offered("transformers", {"actions": ["click"]}, ["ask_user"]) == {"actions": ["click"]}
    assert offered("random", {"seed": 1}, ["ask_user"]) == {"seed": 1}


@pytest.mark.slow
def test_never_refuses_and_a_function_answers(shop: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP", f"{shop.url}/")
    (tmp_path / "own.py").write_text(OWN)
    out = tmp_path / "episode"
    asks = {"action": "ask_user", "question": "Which size?"}
    result = CliRunner().invoke(app, [
        "run", "--goal", "Buy it.", "--url", f"{shop.url}/", *scripted({"action": "click", "id": 2}, asks,
        {"action": "finish"}), "--confirm", "never", "--user", f"{tmp_path}/own.py:answer", "--out", str(out),
    ])  # fmt: skip
    assert result.exit_code == 0, result.output
    steps = steps_of(out)
    assert shop.bought() == []
    assert steps[0]["risk"]["confirmed"] == "refused"
    assert "Actions like this are refused here (" in steps[0]["error"], "nobody was asked"
    assert steps[1]["questions"] == [{"question": "Which size?", "answer": "WHICH SIZE? 7"}]


class _Terminal:
    """A command at a terminal of its own."""

    def __init__(self, *words: str, **variables: str) -> None:
        self.pid, self._end = pty.fork()
        if self.pid == 0:
            os.environ.update(variables, OMP_NUM_THREADS="1", TERM="xterm")
            os.execv(sys.executable, [sys.executable, "-m", "selfsurf.scripts.cli", *words])
        self.shown = ""

    def until(self, text: str, seconds: float = 60) -> None:
        """Read until something is shown."""
        end = time.monotonic() + seconds
        while text not in self.shown:
            assert time.monotonic() < end, self.shown
            if select.select([self._end], [], [], 0.2)[0]:
                self._read()

    def type(self, text: str) -> None:
        os.write(self._end, text.encode())

    def ended(self, seconds: float = 60) -> int:
        """Read to the end and return the exit code."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if select.select([self._end], [], [], 0.1)[0]:
                self._read()
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        raise AssertionError(f"It did not end: {self.shown}")

    def _read(self) -> None:
        try:
            self.shown += os.read(self._end, 65536).decode(errors="replace")
        except OSError:  # the other side is closed
            time.sleep(0.05)


@pytest.mark.slow
def test_a_person_at_the_terminal_confirms_answers_and_ends_it(shop: Any, tmp_path: Path) -> None:
    hostile = {"action": "ask_user", "question": "Which\u001b[2K size\u202e?"}
    click, last = {"action": "click", "id": 2}, {"action": "ask_user", "question": "Still there?"}
    out = tmp_path / "episode"
    terminal = _Terminal(
        "run", "--goal", "Buy.", "--url", f"{shop.url}/", *scripted(click, click, hostile, last),
        "--confirm", "ask", "--user", "ask", "--out", str(out),
    )  # fmt: skip
    terminal.until("Go ahead? [y/N] ")
    assert "looks like one to buy or pay" in terminal.shown
    assert shop.bought() == []
    terminal.type("n\n")
    terminal.shown = ""
    terminal.until("Go ahead? [y/N] ")
    terminal.type("y\n")
    terminal.until("Your answer: ")
    assert "Which\ufffd[2K size\ufffd?" in terminal.shown
    terminal.type("XL\n")
    terminal.until("Still there?")
    below = descendants(terminal.pid)
    terminal.type("\x03")
    assert terminal.ended(20) == 130, terminal.shown
    assert gone(below)
    assert json.loads((out / "episode.json").read_text())["outcome"] == "stopped"
    steps = steps_of(out)
    assert [step["risk"] and step["risk"]["confirmed"] for step in steps] == ["refused", "by the user", None]
    assert steps[2]["questions"][0]["answer"] == "XL"
    assert len(shop.bought()) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "variables", "asks"),
    [((), {}, True), (("--confirm", "auto"), {}, False), ((), {"SELFSURF_ENVIRONMENT_CONFIRM": "auto"}, False)],
)
def test_a_person_at_the_terminal_is_asked_before_a_purchase_unless_an_option_says_otherwise(
    shop: Any, tmp_path: Path, option: tuple[str, ...], variables: dict[str, str], asks: bool
) -> None:
    terminal = _Terminal(
        "run", "--goal", "Buy.", "--url", f"{shop.url}/", *scripted({"action": "click", "id": 2}, {"action": "finish"}),
        *option, "--out", str(tmp_path / "episode"), **variables,
    )  # fmt: skip
    if asks:
        terminal.until("Go ahead? [y/N] ", 60 * crowd())
        assert shop.bought() == []
        terminal.type("y\n")
    assert terminal.ended(60 * crowd()) == 0, terminal.shown
    assert "unasked" not in terminal.shown
    assert ("Go ahead?" in terminal.shown) == asks
    assert len(shop.bought()) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "said"),
    [((), "are carried out without asking"), (("--confirm", "never"), "it can't read pictures"), (("--json",), "")],
)
def test_without_a_terminal_nobody_is_asked_and_it_is_said(tmp_path: Path, option: tuple[str, ...], said: str) -> None:
    words = ["run", "--goal", "Look.", "--url", "data:text/html,<p>Shop", "--agent", "scripted", "--set"]
    words += ['actions=[{"action": "finish"}]', "--out", f"{tmp_path}/episode", *option]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    told = result.stderr.count("carried out without asking") + result.stderr.count("--confirm never refuses")
    assert told == (1 if said else 0)
    assert said in result.stderr


@pytest.mark.slow
def test_no_browser_is_started_beside_a_profiles_or_one_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutdown()
    (counting := tmp_path / "chromium").write_text(
        f'#!/bin/sh\necho >>{tmp_path}/starts\nexec {find_browser()} --remote-debugging-port=0 "$@"\n'
    )
    counting.chmod(0o755)
    monkeypatch.setenv("SELFSURF_BROWSER", str(counting))
    words = ["run", "--goal", "Look.", "--url", "data:text/html,<p>Shop", "--agent", "scripted", "--set"]
    words += ['actions=[{"action": "finish"}]', "--out"]
    result = CliRunner().invoke(app, [*words, f"{tmp_path}/first", "--profile", f"{tmp_path}/profile"])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "starts").read_text().count("\n") == 1
    with subprocess.Popen(
        [counting, "--no-sandbox", f"--user-data-dir={tmp_path}/theirs", "about:blank"], stderr=subprocess.DEVNULL
    ) as theirs:
        try:
            active = tmp_path / "theirs" / "DevToolsActivePort"
            assert until(lambda: active.exists() and active.read_text(), 60)  # there before it is written
            monkeypatch.setenv("SELFSURF_BROWSER", "/nonexistent")
            address = f"cdp_url=http://127.0.0.1:{active.read_text().split()[0]}"
            result = CliRunner().invoke(app, [*words, f"{tmp_path}/second", "--env-option", address])
            assert result.exit_code == 0, result.output
        finally:
            theirs.kill()


@pytest.mark.slow
def test_worker_processes_have_the_same_options_and_ask_at_the_terminal(
    shop: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "shop.toml").write_text('name = "shop"\ntasks = [{ id = "own.py:Order" }, { id = "own.py:Other" }]\n')
    out = tmp_path / "run"
    words = ["bench", "run", f"{tmp_path}/shop.toml", "--agent", "oracle", "--seeds", "1", "--profile",
             f"{tmp_path}/profile", "--env-option", "user_agent=Probe/1", "--confirm", "ask", "--secret",
             "password=env:SHOP_PASSWORD", "--out", str(out)]  # fmt: skip
    variables = {"SHOP": f"{shop.url}/", "SHOP_PASSWORD": PASSWORD}
    terminal = _Terminal(*words, **variables)
    for _ in range(2):
        terminal.until("Go ahead? [y/N] ")
        terminal.shown = ""
        terminal.type("y\n")
    assert terminal.ended() == 0, terminal.shown
    results = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    assert [each["outcome"] for each in results] == ["solved"] * 2
    assert {headers["user-agent"] for _, headers in shop.asked} == {"Probe/1"}
    assert (tmp_path / "profile" / "Default").is_dir()
    meta = json.loads((out / "run.json").read_text())
    assert meta["environment"]["secret"] == ["password=env:SHOP_PASSWORD"]
    episode = json.loads(next(out.glob("episodes/*/episode.json")).read_text())
    assert episode["environment"] == meta["environment"]
    assert PASSWORD not in written(out)
    monkeypatch.setenv("SHOP", f"{shop.url}/")
    other = CliRunner().invoke(app, [*words[:7], "--out", str(out)])
    assert (other.exit_code, "other arguments: environment" in said(other)) == (2, True), other.output


def test_training_has_the_same_options_and_keeps_no_secret(
    shop: Any, tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP", f"{shop.url}/")
    monkeypatch.setenv("SHOP_PASSWORD", PASSWORD)
    (tmp_path / "own.py").write_text(OWN)
    small = ["episodes_per_step=2", "max_rows=2", "max_episode_steps=1", "least_first_divergence=0"]
    result = CliRunner().invoke(app, [
        "train", f"{tmp_path}/own.py:Order", "--model", str(tiny), "--steps", "1", *(w for s in small for w in
        ("--set", s)), "--secret", "password=env:SHOP_PASSWORD", "--env-option", "user_agent=Probe/2", "--profile",
        f"{tmp_path}/profile", "--out", str(tmp_path / "run"),
    ])  # fmt: skip
    assert result.exit_code == 0, result.output
    assert {headers["user-agent"] for _, headers in shop.asked} == {"Probe/2"}
    settings = json.loads((tmp_path / "run" / "settings.json").read_text())
    assert settings["environment"]["secret"] == ["password=env:SHOP_PASSWORD"]
    assert PASSWORD not in written(tmp_path / "run") + result.output


@pytest.mark.slow
def test_ray_workers_have_the_same_options(shop: Any, tmp_path: Path, tiny: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "shop.toml").write_text('name = "shop"\ntasks = [{ id = "own.py:Order" }]\n')
    (tmp_path / "asks.py").write_text(
        "class Agent:\n"
        "    def act(self, obs):\n"
        "        answered = [one['text'] for one in obs['messages'] if one['role'] == 'user'][1:]\n"
        "        if not answered:\n            return {'action': 'ask_user', 'question': 'Which?'}\n"
        "        return {'action': 'fill', 'id': 1, 'text': '<secret:password>'}\n"
    )
    environment = {**os.environ, "SHOP": f"{shop.url}/", "SHOP_PASSWORD": PASSWORD, "OMP_NUM_THREADS": "1"}
    around = ["--secret", "password=env:SHOP_PASSWORD", "--env-option", "user_agent=Probe/3", "--user",
              f"{tmp_path}/own.py:answer"]  # fmt: skip
    for words in (
        ["bench", "run", f"{tmp_path}/shop.toml", "--agent", f"{tmp_path}/asks.py:Agent", "--seeds", "1", "--ray"],
        ["train", f"{tmp_path}/own.py:Order", "--model", str(tiny), "--steps", "1", "--set", "episodes_per_step=2",
         "--set", "least_first_divergence=0", "--set", "rollouts.workers=1"],
    ):  # fmt: skip
        out = tmp_path / words[0]
        done = subprocess.run(
            [sys.executable, "-m", "selfsurf.scripts.cli", *words, *around, "--out", str(out)], env=environment,
            capture_output=True, text=True, timeout=400, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert {headers["user-agent"] for _, headers in shop.asked} == {"Probe/3"}
        assert PASSWORD not in written(out) + done.stdout + done.stderr
        shop.asked.clear()
    steps = steps_of(next((tmp_path / "bench").glob("episodes/*")))
    assert steps[0]["questions"][0]["answer"] == "WHICH? 7"
    assert steps[1]["error"] == ""


class _Proxy(socketserver.StreamRequestHandler):
    """Forwards a GET, for those who give user and password."""

    def handle(self) -> None:
        _, url, _ = self.rfile.readline().decode().split(" ", 2)
        headers = {}
        while line := self.rfile.readline().decode().strip():
            name, _, value = line.partition(": ")
            headers[name.lower()] = value
        told = headers.get("proxy-authorization", "")
        self.server.told.append(told)  # type: ignore[attr-defined]
        if not told:
            self.wfile.write(b"HTTP/1.1 407 No\r\nProxy-Authenticate: Basic realm=p\r\nContent-Length: 0\r\n\r\n")
            return
        host, _, path = url.removeprefix("http://").partition("/")
        connection = HTTPConnection(host, timeout=10)
        connection.request("GET", f"/{path}")
        body = connection.getresponse().read()
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


def test_a_proxy_with_a_password_from_a_file(shop: Any, tmp_path: Path) -> None:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Proxy) as proxy:
        proxy.daemon_threads, proxy.told = True, []  # type: ignore[attr-defined]
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        (tmp_path / "proxy").write_text(f"http://ada:{PASSWORD}@127.0.0.1:{proxy.server_address[1]}\n")
        out = tmp_path / "episode"
        typed = {"action": "fill", "id": 1, "text": PASSWORD}  # as if a page had shown it
        result = CliRunner().invoke(app, [
            "run", "--goal", "Look.", "--url", f"{shop.url}/", *scripted(typed, {"action": "finish"}), "--proxy",
            f"file:{tmp_path}/proxy", "--out", str(out),
        ])  # fmt: skip
        proxy.shutdown()
    assert result.exit_code == 0, result.output
    assert f"Basic {base64.b64encode(f'ada:{PASSWORD}'.encode()).decode()}" in proxy.told  # type: ignore[attr-defined]
    assert PASSWORD not in written(out)
    assert "<secret:proxy-password>" in written(out)


COMMANDS = [
    ["run", "--task", TASK, "--agent", "random"],
    ["bench", "run", "miniwob", "--task", "click-test", "--agent", "random"],
    ["record", "--url", "http://a.test"],
    ["train", TASK],
]


@pytest.mark.parametrize("command", COMMANDS, ids=["run", "bench", "record", "train"])
def test_every_command_refuses_what_can_not_be(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text("3")
    for words, why in (
        (["--secret", f"password={PASSWORD}"], "give env:VARIABLE or file:PATH instead"),
        (["--secret", "password=env:"], "password: env: names no variable"),
        (["--secret", "password=env:NOT_SET"], "environment variable NOT_SET, which should hold the secret password"),
        (["--secret", "password=file:/not/there"], "The file /not/there"),
        (["--proxy", f"http://ada:{PASSWORD}@127.0.0.1:3128"], "give env:VARIABLE or file:PATH instead"),
        (["--env-option", f'http_credentials=["ada", "{PASSWORD}"]'], "http_credentials may hold a secret"),
        (["--device", "iPhone 1"], "there is no device 'iPhone 1'; similar names are"),
        (["--stealth", "--device", "iPhone 15"], "stealth and device exclude each other"),
        (["--storage-state", f"{tmp_path}/state.json"], "is not a storage state"),
        (["--allowed", "http://shop.test/"], "takes hosts such as 'example.org'"),
        (["--upload-from", f"{tmp_path}/none"], "none is not a folder"),
        (["--download-to", f"{tmp_path}/state.json"], "state.json is not a folder"),
        (["--env-option", "timezon=Europe/Berlin"], "did you mean timezone?"),
        (["--env-option", "offline=maybe"], "env_option offline: it should be a valid boolean"),
        (["--env-option", "profile=x"], "profile is set by --profile"),
        (["--confirm", "ask"], "--confirm ask: there is no terminal to ask at"),
        (["--confirm", "ask"], f"(stdin is not one); give {'--wait, and' if command[0] == 'run' else '--confirm'} "),
        (["--user", "ask"], "--user ask: there is no terminal to ask at"),
        (["--user", "nobody"], "user must be none, ask, or a function"),
    ):
        result = CliRunner().invoke(app, [*command, "--out", f"{tmp_path}/out", *words])
        assert result.exit_code == 2, (words, result.output)
        assert why in said(result), words
        assert PASSWORD not in result.output
    assert not (tmp_path / "out").exists()


def test_workers_on_a_cluster_can_not_ask_or_share_a_profile(tmp_path: Path) -> None:
    for words, why in (
        (["bench", "run", "miniwob", "--ray", "--confirm", "ask"], "workers on a cluster can't ask at this terminal"),
        (["bench", "run", "miniwob", "--ray", "--profile", "p"], "serves one episode at a time"),
        (["train", TASK, "--set", "rollouts.workers=1", "--user", "ask"], "workers on a cluster can't ask"),
        (["train", TASK, "--set", "rollouts.workers=1", "--profile", "p"], "a profile serves one episode at a time"),
    ):
        result = CliRunner().invoke(app, [*words, "--out", f"{tmp_path}/out"])
        assert (result.exit_code, why in said(result)) == (2, True), result.output


def test_nim_is_an_agent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("NVIDIA_API_KEY", raising=False)
    words = ["run", "--task", TASK, "--agent", "nim", "--model", "meta/llama", "--out", f"{tmp_path}/out"]
    refused = CliRunner().invoke(app, words)
    assert (refused.exit_code, "set NVIDIA_API_KEY" in said(refused)) == (2, True), refused.output
    agent: Any = agents.make("nim", model="meta/llama", api_key="k")
    assert agent.policy.endpoint is ENDPOINTS["nim"]
    agent.policy.close()
