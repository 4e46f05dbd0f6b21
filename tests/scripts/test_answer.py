"""A run that waits for a person: its process, its terminal and its browser are really killed, and the site counts."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest
from typer.testing import CliRunner

from selfsurf.browser_env import BrowserEnv, SessionOptions
from selfsurf.browser_env.record.episode import Episode, EpisodeWriter
from selfsurf.browser_env.record.verdict import verdict_of
from selfsurf.browser_env.session.detached import end_browser
from selfsurf.scripts.cli import app
from selfsurf.scripts.waiting.kept import WaitingRun
from tests.processes import until

PAGE = b"""<title>Shop</title><input aria-label=Name><p id=said></p>
<button onclick="fetch('/done', {method: 'POST'}).then(() => said.textContent = 'Thank you.')">Press me</button>
<button onclick="fetch('/deleted', {method: 'POST'}).then(() => said.textContent = 'Deleted.')">Delete account</button>"""

AGENTS = """
import os, signal
from selfsurf.agents.policy import Completion
from selfsurf.browser_env import AsyncBrowserEnv, Click, Fill, Finish, parse_action
from selfsurf.browser_env.record.episode import EpisodeWriter

POINT = os.environ.get("KILL", "")

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

if POINT == "answering":  # the answer is on disk, nothing was sent
    AsyncBrowserEnv.answer = die
if POINT == "closing":  # the last step is on disk, the episode's end is not
    EpisodeWriter.finish = die

class Asking:
    button = "Press me"

    def act(self, obs):
        ids = {element["name"]: element["id"] for element in obs["elements"]}
        answers = [message["text"] for message in obs["messages"][1:] if message["role"] == "user"]
        if not answers:
            values = {element["name"]: element["value"] for element in obs["elements"]}
            if values["Name"] != "Ada":
                return Fill(id=ids["Name"], text="Ada")
            return parse_action({"action": "ask_user", "question": "Which colour?"})
        if "Thank you" in obs["page_text"] or "Deleted" in obs["page_text"] or "did not allow" in obs["last_error"]:
            return Finish(answer=f"{answers[0]}; {obs['last_error'][:23]}")
        if POINT == "before":
            die()
        if POINT == "sending":  # the intent is on disk, nothing was sent
            AsyncBrowserEnv.step = die
        if POINT == "recording":  # it was carried out, and what came of it is not on disk
            EpisodeWriter.step = die
        return Click(id=ids[self.button])

class Deleting(Asking):
    button = "Delete account"

class Plain:
    # Its actions are dictionaries.

    def act(self, obs):
        answers = [message["text"] for message in obs["messages"] if message["role"] == "user"]
        if len(answers) < 2:  # the first is the goal
            return {"action": "ask_user", "question": "Which colour?"}
        return {"action": "finish", "answer": "\\x1b[31mred\\nand " + answers[1]}

class Model:
    # A policy that fills, asks, and finishes; what it is shown is in the episode.

    name, guidance, sees_images, prompt_budget = "own", "none", False, 4000
    parameter_count = context_length = None

    def count_tokens(self, text):
        return len(text) // 4

    def count_prompt_tokens(self, messages, prefill=""):
        return sum(len(message.text) for message in messages) // 4

    def complete(self, conversations, **options):
        shown = conversations[0][-1].text
        system = conversations[0][0].text
        assert "ask_user" in system
        reply = '{"fill":1,"text":"Ada"}' if '"Ada"' not in shown else '{"ask_user":"Which colour?"}'
        reply = '{"finish":"done"}' if "Blue." in shown else reply
        return [Completion(reply, [1], [2], [], None, "eos")]

    def close(self):
        pass
"""

SPEC = """
goal = "Do it."
start = "about:blank"
criteria = [
    { action = { kind = "fill", text = "Ada" }, at = "ever" },
    { request = { method = "POST", url = "/deleted", status = 200 } },
]
"""


@pytest.fixture
def site() -> Iterator[Any]:
    """A shop that counts what is done, and kills who does it where `kills` names its process."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.cookies.append(self.headers["Cookie"])
            self._answer(PAGE)

        def do_POST(self) -> None:
            server.done.append(self.path)
            if server.kills is not None:
                os.kill(server.kills.pid, signal.SIGKILL)
                server.kills.wait()
            self._answer(b"")

        def _answer(self, body: bytes) -> None:
            self.send_response(200)
            if self.path == "/login":
                self.send_header("set-cookie", "user=ada; max-age=99999")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.done, server.cookies, server.kills = [], [], None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[WaitingRun]:
    """The run, by the folder of its episode."""
    run = WaitingRun(tmp_path / "runs" / "episode")
    yield run
    end_browser(run.browser)


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a command as a process; `kill` names the point at which it kills itself."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: Any, kill: str = "", **more: Any) -> subprocess.Popen[str]:
        words = [sys.executable, "-m", "selfsurf.scripts.cli", *map(str, arguments)]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        pipes |= {"cwd": tmp_path, **more}
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "KILL": kill}
        started.append(subprocess.Popen(words, env=environment, start_new_session=True, **pipes))
        return started[-1]

    yield start
    for one in started:
        if one.poll() is None:
            one.kill()
        one.communicate()


@pytest.fixture
def waiting(site: Any, kept: WaitingRun, command: Any, tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """Starts a run and returns its process once it asks."""
    (tmp_path / "agents.py").write_text(AGENTS)

    def start(agent: str = "Asking", *more: str, **pipes: Any) -> subprocess.Popen[str]:
        url = f"http://127.0.0.1:{site.server_port}/"
        process: subprocess.Popen[str] = command(
            "run", "--wait", "--goal", "Do it.", "--url", url, "--agent", f"{tmp_path}/agents.py:{agent}",
            "--out", kept.folder, *more, **pipes,
        )  # fmt: skip
        assert until(lambda: asks(kept), 40), process.communicate(timeout=10)
        return process

    return start


def asks(kept: WaitingRun) -> str:
    """What the run waits for."""
    if not (kept.folder / "episode.json").exists():
        return ""
    question = kept.question
    return question["text"] if question else ""


def about_to_delete(kept: WaitingRun, waiting: Any) -> subprocess.Popen[str]:
    """The process of a run that asks whether it may delete the account."""
    process: subprocess.Popen[str] = waiting("Deleting")
    kept.bring(kept.question or {}, "Blue.")
    assert until(lambda: "'Delete account'" in asks(kept), 20)
    return process


def killed(process: subprocess.Popen[str]) -> bool:
    process.kill()
    return process.wait(10) == -signal.SIGKILL


def browser_of(kept: WaitingRun) -> psutil.Process:
    return psutil.Process(json.loads((kept.browser / "browser.json").read_text())["pid"])


def end_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    said: dict[str, Any] = json.loads(out)
    return said


def steps_of(kept: WaitingRun) -> list[dict[str, Any]]:
    return list(Episode(kept.folder).steps())


@pytest.mark.parametrize(
    "point",
    [
        pytest.param("before", marks=pytest.mark.slow),
        pytest.param("sending", marks=pytest.mark.slow),
        "in",  # the one killed around an action, after it was killed while it waits
        pytest.param("recording", marks=pytest.mark.slow),
    ],
)
def test_killed_while_it_waits_and_again_around_an_action_which_is_done_once(
    site: Any, kept: WaitingRun, command: Any, waiting: Any, point: str
) -> None:
    assert killed(waiting())
    browser = browser_of(kept)
    assert browser.is_running()
    again = command("answer", kept.folder, "Blue.", "--json", kill=point)
    site.kills = again if point == "in" else None
    assert again.wait(60) == -signal.SIGKILL, again.communicate()
    site.kills = None
    assert len(site.done) == (1 if point in ("in", "recording") else 0)
    assert browser.is_running()
    said = end_of(command("answer", kept.folder, "--json"))
    told = "" if point == "before" else "The run was interrupted"
    assert (said["outcome"], said["answer"].partition("; ")) == ("stopped", ("Blue.", "; ", said["answer"][7:]))
    assert site.done == ["/done"]
    steps = steps_of(kept)
    assert [step["step"] for step in steps] == list(range(len(steps)))
    assert steps[1]["questions"] == [{"question": "Which colour?", "answer": "Blue."}]
    cut = [step for step in steps if step["error"]]
    assert [step["actions"][0]["action"] for step in cut] == ["click"] * bool(told)
    assert all(step["error"].startswith(told) for step in cut)
    assert steps[-1]["observation"]["elements"][0]["value"] == "Ada", "it went on in the same page"
    assert min(e["id"] for e in steps[-1]["observation"]["elements"]) > max(
        e["id"] for e in steps[0]["observation"]["elements"]
    )
    assert all((kept.folder / step["screenshot"]).exists() for step in steps)
    assert until(lambda: not browser.is_running() or browser.status() == psutil.STATUS_ZOMBIE)
    assert not kept.running.exists()
    assert Episode(kept.folder).damage() == []


def test_a_killed_run_goes_on_in_the_background(site: Any, kept: WaitingRun, command: Any, waiting: Any) -> None:
    assert killed(waiting())
    said = end_of(command("answer", kept.folder, "Blue.", "--detach", "--json"))
    assert until(lambda: not kept.running.exists(), 40), Path(said["log"]).read_text()
    assert Episode(kept.folder).meta["outcome"] == "stopped"
    assert site.done == ["/done"]
    assert "continues in this process" in Path(said["log"]).read_text()
    assert Episode(kept.folder).damage() == []


@pytest.mark.slow
def test_killed_behind_its_last_step_it_ends_with_that(site: Any, kept: WaitingRun, command: Any, waiting: Any) -> None:
    assert killed(waiting())
    again = command("answer", kept.folder, "Blue.", "--json", kill="closing")
    assert again.wait(60) == -signal.SIGKILL, again.communicate()
    before, browser = steps_of(kept), browser_of(kept)
    assert before[-1]["outcome"] == "stopped"
    assert end_of(command("answer", kept.folder, "--json"))["outcome"] == "stopped"
    assert (site.done, steps_of(kept)) == (["/done"], before)
    assert until(lambda: not browser.is_running() or browser.status() == psutil.STATUS_ZOMBIE)
    assert not kept.running.exists()
    assert Episode(kept.folder).meta["totals"]["steps"] == len(before)
    assert Episode(kept.folder).damage() == []


@pytest.mark.slow
def test_a_confirmation_is_given_to_a_living_run_and_to_a_killed_one(
    site: Any, kept: WaitingRun, command: Any, waiting: Any
) -> None:
    process = waiting("Deleting", "--json")
    shown = json.loads(CliRunner().invoke(app, ["answer", str(kept.folder), "--json"]).output)
    assert (shown["waiting"]["kind"], shown["waiting"]["text"], shown["alive"]) == ("question", "Which colour?", True)
    answered = CliRunner().invoke(app, ["answer", str(kept.folder), "Blue."])
    assert (answered.exit_code, answered.output) == (0, "Answered; the run goes on.\n")
    assert until(lambda: "'Delete account'" in asks(kept), 20)
    assert killed(process)
    said = end_of(command("answer", kept.folder, "yes", "--json"))
    assert (said["outcome"], site.done) == ("stopped", ["/deleted"])
    (step,) = [step for step in steps_of(kept) if step["risk"]]
    assert (step["questions"][0]["answer"], step["error"], step["action_path"]) == ("yes", "", "mouse")


@pytest.mark.slow
def test_a_refusal_reaches_a_killed_run_and_nothing_is_done(
    site: Any, kept: WaitingRun, command: Any, waiting: Any
) -> None:
    assert killed(about_to_delete(kept, waiting))
    said = end_of(command("answer", kept.folder, "Not that one!", "--json"))
    assert (said["outcome"], site.done) == ("stopped", [])
    refused = steps_of(kept)[2]
    assert refused["error"].endswith('The user said: "Not that one!"')
    assert (refused["risk"]["kind"], refused["risk"]["confirmed"]) == ("delete", "refused")


@pytest.mark.slow
def test_a_no_counts_after_a_yes_that_came_to_nothing(
    site: Any, kept: WaitingRun, command: Any, waiting: Any, tmp_path: Path
) -> None:
    assert killed(about_to_delete(kept, waiting))
    (tmp_path / "agents.py").rename(tmp_path / "moved.py")
    assert command("answer", kept.folder, "yes").wait(60) == 2
    (tmp_path / "moved.py").rename(tmp_path / "agents.py")
    said = end_of(command("answer", kept.folder, "No, keep it.", "--json"))
    assert (said["outcome"], site.done) == ("stopped", [])
    assert steps_of(kept)[2]["error"].endswith('The user said: "No, keep it."')


@pytest.mark.slow
def test_an_agent_whose_actions_are_dictionaries_can_wait(kept: WaitingRun, command: Any, waiting: Any) -> None:
    process = waiting("Plain")
    kept.bring(kept.question or {}, "Blue.")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "it is done: \\u001b[31mred\nand Blue." in out, "what a page may have written moves no cursor"


@pytest.mark.slow
@pytest.mark.parametrize("point", ["answering", "in"])
def test_killed_around_a_confirmed_action_which_is_done_once(
    site: Any, kept: WaitingRun, command: Any, waiting: Any, point: str
) -> None:
    assert killed(about_to_delete(kept, waiting))
    again = command("answer", kept.folder, "yes", "--json", kill=point)
    site.kills = again if point == "in" else None
    assert again.wait(60) == -signal.SIGKILL, again.communicate()
    site.kills = None
    then = command("answer", kept.folder, "--json")
    if point == "answering":  # it was not done, so the agent decides anew, and asks again
        assert until(lambda: "'Delete account'" in asks(kept), 40)
        assert asks(kept).endswith("(allowed before, but interrupted: the action may already have happened)")
        assert site.done == []
        assert CliRunner().invoke(app, ["answer", str(kept.folder), "yes"]).exit_code == 0
    assert end_of(then)["outcome"] == "stopped"
    assert site.done == ["/deleted"]
    assert [step["error"][:23] for step in steps_of(kept) if step["error"]] == ["The run was interrupted"]
    assert {step["risk"]["confirmed"] for step in steps_of(kept) if step["risk"]} == {"by the user"}


@pytest.mark.slow
def test_a_sigterm_leaves_what_waits(site: Any, kept: WaitingRun, command: Any, waiting: Any) -> None:
    process = waiting("Asking", "--json")
    process.terminate()
    out, err = process.communicate(timeout=20)
    assert (process.returncode, json.loads(out)["outcome"], err) == (143, "running", "")
    assert browser_of(kept).is_running()
    assert end_of(command("answer", kept.folder, "Blue.", "--json"))["outcome"] == "stopped"
    assert site.done == ["/done"]


@pytest.mark.slow
def test_a_specification_judges_what_was_done_before_and_after_a_kill(
    site: Any, kept: WaitingRun, command: Any, waiting: Any, tmp_path: Path
) -> None:
    (tmp_path / "spec.toml").write_text(SPEC)
    process = waiting("Deleting", "--spec", f"{tmp_path}/spec.toml", "--confirm", "auto")
    assert killed(process)
    said = end_of(command("answer", kept.folder, "Blue.", "--json"))
    assert (said["outcome"], site.done) == ("solved", ["/deleted"])
    (step,) = [step for step in steps_of(kept) if step["risk"]]
    assert (step["risk"]["confirmed"], step["questions"]) == ("automatically", [])


@pytest.mark.slow
def test_a_killed_run_goes_on_with_the_same_files_from_another_folder(
    kept: WaitingRun, command: Any, waiting: Any, tmp_path: Path
) -> None:
    (tmp_path / "files").mkdir()
    assert killed(waiting("Asking", "--upload-from", "files"))
    assert json.loads(kept.settings)["upload_from"] == [f"{tmp_path}/files"]
    assert end_of(command("answer", kept.folder, "Blue.", "--json", cwd="/"))["outcome"] == "stopped"


@pytest.mark.slow
def test_the_browser_is_killed_too(site: Any, kept: WaitingRun, command: Any, waiting: Any) -> None:
    assert killed(waiting())
    os.killpg(browser_of(kept).pid, signal.SIGKILL)
    said = end_of(command("answer", kept.folder, "Blue.", "--json"))
    assert (said["outcome"], site.done) == ("stopped", ["/done"])
    after = steps_of(kept)[2]["observation"]
    assert after["last_error"].startswith("The browser was lost, with its tabs and all typed text.")
    assert (after["title"], after["elements"][0]["value"]) == ("Shop", "")


@pytest.mark.slow
def test_the_browser_of_a_profile_is_killed_too(
    site: Any, kept: WaitingRun, command: Any, waiting: Any, tmp_path: Path
) -> None:
    profile = tmp_path / "profile"
    env = BrowserEnv(f"http://127.0.0.1:{site.server_port}/login", session=SessionOptions(profile=profile))
    env.reset(seed=0)
    env.close()
    assert killed(waiting("Asking", "--profile", str(profile)))
    os.killpg(browser_of(kept).pid, signal.SIGKILL)
    assert end_of(command("answer", kept.folder, "Blue.", "--json"))["outcome"] == "stopped"
    assert site.cookies[-2:] == ["user=ada", "user=ada"], "of the run, and after its browser was killed"


@pytest.mark.slow
def test_a_model_knows_what_was_done_before_its_process_was_killed(
    kept: WaitingRun, command: Any, waiting: Any
) -> None:
    assert killed(waiting("Model"))
    assert end_of(command("answer", kept.folder, "Blue.", "--json"))["answer"] == "done"
    before, asked, after = steps_of(kept)
    prompt = after["completions"][0]["prompt"][-1]["text"]
    for told in ("fill", "Ada", "Which colour?", "Blue."):
        assert told in prompt, prompt
    assert asked["questions"] == [{"question": "Which colour?", "answer": "Blue."}]
    assert before["actions"][0]["action"] == "fill"


@pytest.mark.slow
def test_a_run_that_can_not_go_on_now_is_left_for_later(
    site: Any, kept: WaitingRun, command: Any, waiting: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert killed(waiting())
    os.killpg(browser_of(kept).pid, signal.SIGKILL)
    monkeypatch.setenv("SELFSURF_BROWSER", "/bin/false")
    out, _ = (process := command("answer", kept.folder, "Blue.", "--json")).communicate(timeout=90)
    said = json.loads(out)
    assert (process.returncode, said["outcome"]) == (1, "running")
    assert said["error"].endswith(f"Continue with: selfsurf answer {kept.folder}")
    monkeypatch.delenv("SELFSURF_BROWSER")
    assert end_of(command("answer", kept.folder, "--json"))["outcome"] == "stopped"
    assert site.done == ["/done"]
    assert steps_of(kept)[1]["questions"][0]["answer"] == "Blue."


@pytest.mark.slow
def test_the_browser_of_a_living_run_is_killed(site: Any, kept: WaitingRun, command: Any, waiting: Any) -> None:
    process = waiting("Asking", "--json")
    browser = browser_of(kept)
    os.killpg(browser.pid, signal.SIGKILL)
    assert until(lambda: not browser.is_running() or browser.status() == psutil.STATUS_ZOMBIE)
    assert CliRunner().invoke(app, ["answer", str(kept.folder), "Blue."]).exit_code == 0
    said = end_of(process)
    assert (said["outcome"], site.done) == ("stopped", ["/done"])
    assert steps_of(kept)[2]["observation"]["last_error"].startswith("The browser was lost")


@pytest.mark.slow
@pytest.mark.parametrize("disowned", [False, True])
def test_its_terminal_is_closed(site: Any, kept: WaitingRun, command: Any, waiting: Any, disowned: bool) -> None:
    with Terminal(disowned=disowned) as terminal:
        process = waiting(**terminal.pipes)
    if disowned:
        kept.bring(kept.question or {}, "Blue.")
        assert process.wait(20) == 0
        assert site.done == ["/done"]
        return
    assert until(lambda: process.poll() is not None, 20)
    assert browser_of(kept).is_running()
    assert end_of(command("answer", kept.folder, "Blue.", "--json"))["outcome"] == "stopped"
    assert site.done == ["/done"]


class Terminal:
    """A terminal of a process's own, read all the time: a process whose terminal nobody reads stops at 4,096 bytes.

    One that is disowned outlives it.
    """

    def __init__(self, *, disowned: bool = False) -> None:
        self._disowned = disowned

    def __enter__(self) -> Terminal:
        self._main, side = pty.openpty()
        own = partial(_own_terminal, signal.SIG_IGN if self._disowned else signal.SIG_DFL)
        self.pipes: dict[str, Any] = {"stdin": side, "stdout": side, "stderr": side, "preexec_fn": own}
        self._seen = b""
        self._gone = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._gone.set()
        self._reader.join()
        os.close(self.pipes["stdin"])
        os.close(self._main)

    def shows(self, text: str) -> bool:
        """Has it shown a text?"""
        return text in self._seen.decode(errors="replace")

    def type(self, line: str) -> None:
        os.write(self._main, f"{line}\n".encode())

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        os.write(self._main, b"\x03")

    def _read(self) -> None:
        while not self._gone.is_set():
            if select.select([self._main], [], [], 0.05)[0]:
                self._seen += os.read(self._main, 4096)


def _own_terminal(hung_up: signal.Handlers) -> None:
    import fcntl
    import termios

    signal.signal(signal.SIGHUP, hung_up)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.mark.slow
def test_a_terminal_answers(site: Any, kept: WaitingRun, waiting: Any) -> None:
    with Terminal() as terminal:
        process = waiting(**terminal.pipes)
        assert until(lambda: terminal.shows("Which colour?\r\nYour answer: "), 20)
        terminal.type("Blue.")
        assert process.wait(30) == 0
        assert terminal.shows("Answer here, or with: selfsurf answer")
    assert (steps_of(kept)[1]["questions"][0]["answer"], site.done) == ("Blue.", ["/done"])


@pytest.mark.slow
def test_ctrl_c_at_a_question_ends_the_run_and_says_no_more(kept: WaitingRun, waiting: Any) -> None:
    with Terminal() as terminal:
        process = waiting(**terminal.pipes)
        assert until(lambda: terminal.shows("Your answer: "), 20)
        terminal.interrupt()
        assert process.wait(30) == 130
        assert until(lambda: terminal.shows("Episode: "))
    assert not terminal.shows("Task")
    assert not kept.running.exists()


@pytest.mark.slow
def test_a_page_answers_and_only_who_has_its_address(kept: WaitingRun, command: Any, waiting: Any) -> None:
    assert killed(waiting())
    process, address = page_of(command, kept)
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(address[:-1])
    assert b"Which colour?" in urllib.request.urlopen(address).read()
    send_to(address, "Blue.")
    assert end_of(process)["outcome"] == "stopped"
    assert steps_of(kept)[1]["questions"][0]["answer"] == "Blue."


@pytest.mark.slow
def test_the_process_ends_while_a_page_waits_for_its_answer(
    site: Any, kept: WaitingRun, command: Any, waiting: Any
) -> None:
    process = waiting()
    answering, address = page_of(command, kept)
    assert killed(process)
    send_to(address, "Blue.")
    assert (end_of(answering)["outcome"], site.done) == ("stopped", ["/done"])


@pytest.mark.slow
def test_a_page_answers_no_other_question_than_its_own(site: Any, kept: WaitingRun, command: Any, waiting: Any) -> None:
    waiting("Deleting")
    answering, address = page_of(command, kept)
    kept.bring(kept.question or {}, "Blue.")
    assert until(lambda: "'Delete account'" in asks(kept), 20)
    send_to(address, "yes")
    out, err = answering.communicate(timeout=20)
    assert (answering.returncode, "'Delete account'" in json.loads(out)["waiting"]["text"]) == (1, True), err
    assert site.done == []


def page_of(command: Any, kept: WaitingRun) -> tuple[subprocess.Popen[str], str]:
    """The process of an answer that is given on a page, and the page's address."""
    process = command("answer", kept.folder, "--web", "--json")
    found = re.search(r"http://\S+", process.stderr.readline())
    assert found is not None
    return process, found[0]


def send_to(address: str, text: str) -> None:
    """Answer on a page."""
    urllib.request.urlopen(address, urllib.parse.urlencode({"text": text}).encode()).read()


@pytest.mark.parametrize(
    ("outcome", "criteria", "says"),
    [
        ("infeasible", None, None),
        ("timeout", None, None),
        ("timeout", ["met", "unknown"], None),
        ("timeout", ["missed", "unknown"], "failed"),
        ("solved", ["met"], "solved"),
    ],
)
def test_killed_behind_its_last_step_it_is_judged_by_a_specification_alone(
    kept: WaitingRun, outcome: str, criteria: list[str] | None, says: str | None
) -> None:
    begun = WaitingRun.begin(kept.folder, "{}")
    writer = EpisodeWriter(kept.folder, {"goal": "Do it."}, journal=begun.journal())
    page: Any = {
        "url": "",
        "dom": "",
        "elements": (),
        "last_action": "",
        "last_error": "",
        "events": (),
        "messages": (),
    }
    score = {} if criteria is None else {"criteria": [{"found": one} for one in criteria]}
    info: Any = {"outcome": outcome, "score": score, "timing": {}}
    writer.step(page, {"action": "finish"}, reward=0.0, info=info, after=page)
    begun.let_go()
    result = CliRunner().invoke(app, ["answer", str(kept.folder), "--json"])
    assert (result.exit_code, json.loads(result.stdout)["outcome"]) == (0, outcome), result.output
    verdict = verdict_of(kept.folder)
    assert (verdict and verdict.says) == says


@pytest.mark.slow
@pytest.mark.parametrize("killed_before", [True, False])
def test_what_was_left_or_waits_is_listed_and_ended(
    killed_before: bool, site: Any, kept: WaitingRun, waiting: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CLAW_LOG_DIR", "logs")
    process = waiting("Asking", "--json")
    monkeypatch.delenv("CLAW_LOG_DIR")
    monkeypatch.chdir(tmp_path)
    browser = browser_of(kept)
    assert "runs/episode: Which colour?" in CliRunner().invoke(app, ["answer"]).output
    if killed_before:
        assert killed(process)
        (kept.running / "run.json").write_text("{")
        damaged = CliRunner().invoke(app, ["answer", str(kept.folder), "Blue."])
        assert (damaged.exit_code, "is damaged" in damaged.output, "--stop" in damaged.output) == (2, True, True)
    stopped = CliRunner().invoke(app, ["answer", str(kept.folder), "--stop"])
    assert stopped.output.startswith("stopped.")
    assert until(lambda: not browser.is_running() or browser.status() == psutil.STATUS_ZOMBIE)
    assert not kept.running.exists()
    if not killed_before:
        printed, _ = process.communicate(timeout=20)
        assert process.returncode in (130, 143)
        assert json.loads(printed.splitlines()[-1])["outcome"] == "stopped", printed
        assert "Continue with" not in printed
    ended = Episode(kept.folder)
    assert (ended.meta["outcome"], ended.damage()) == ("stopped", [])
    assert ended.meta["outcome_detail"] == "Ended by the user, who was asked: Which colour?"
    if not killed_before:  # else the settings that say where the log is were damaged
        [log] = tmp_path.glob(f"logs/*/*/{ended.meta['traceId']}")
        assert until((log / "summary.json").exists)
        assert json.loads((log / "summary.json").read_text())["decision"] == "stopped"
    assert "No run in runs/ is waiting." in CliRunner().invoke(app, ["answer"]).output
    over = CliRunner().invoke(app, ["answer", str(kept.folder), "Blue."])
    assert (over.exit_code, "is not waiting" in over.output) == (2, True)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--task", "MiniWoB/click-test-v0"], "--wait needs --goal or --spec"),
        (["--goal", "Look.", "--device", "iPhone 15"], "a detached browser doesn't support device"),
        (["--goal", "Look.", "--proxy", "env:PROXY"], "a detached browser can't log in to a proxy"),
        (["--goal", "Look.", "--env-option", "detached=x"], "detached is set by --wait"),
        (["--goal", "Look.", "--redacted", "full"], "--wait needs --redacted secrets"),
    ],
)
def test_what_can_not_wait_is_refused(
    words: list[str], why: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PROXY", "http://ada:secret@127.0.0.1:3128")
    wide = CliRunner(env={"COLUMNS": "400"})
    result = wide.invoke(app, ["run", "--wait", "--agent", "random", "--out", f"{tmp_path}/out", *words])
    assert (result.exit_code, why in " ".join(result.output.replace("│", " ").split())) == (2, True), result.output
    assert not (tmp_path / "out").exists()
