"""The shell by its own process, at a pseudo-terminal and piped, in a real browser on the inbox of the scenarios."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from typer.testing import CliRunner

from selfsurf.browser_env.record.episode import Episode
from selfsurf.browser_env.record.verdict import verdict_of
from selfsurf.scripts.cli import app
from selfsurf.scripts.machine.loopback import serving
from selfsurf.tasks.scenarios.inbox import Delete
from selfsurf.tasks.scenarios.scenario import HTML
from tests.processes import browsers, descendants, gone

MESSAGES = [{"subject": subject, "sender": "Ada", "text": "See you there."} for subject in ("Lunch", "Minutes", "Keys")]
FRAME = {"links": ["Help"], "news": ["A new roof."], "notice": "", "newsFirst": False, "footer": "Since 1987"}
CONFIG = {"frame": FRAME, "labels": {key: names[0] for key, names in Delete.labels.items()}, "messages": MESSAGES}

AGENT = """
import time
from selfsurf.browser_env import Click, Finish
from selfsurf.browser_env.actions import AskUser

class Clerk:
    # Deletes a message, asks which one, or sleeps; notes which steps it is told of.

    told = ()

    def follow(self, obs, action, slot):
        self.told = (*self.told, action.name)

    def act(self, obs):
        ids = {element["name"]: element["id"] for element in obs["elements"]}
        verb, _, subject = obs["goal"].partition(" ")
        if verb == "Sleep":
            time.sleep(60)
        if verb == "Ask":
            said = [message["text"] for message in obs["messages"][1:] if message["role"] == "user"]
            return Finish(answer=said[0]) if said else AskUser(question="Which one?")
        if verb == "Look":
            return Finish(answer=", ".join(sorted({"Lunch", "Minutes", "Keys"} & set(ids))) or "nothing")
        if "did not allow" in obs["last_error"]:
            return Finish(answer="Not allowed.")
        for name in ("Delete permanently", "Delete", subject):
            if name in ids:
                return Click(id=ids[name])
        return Finish(answer=f"{subject} is gone; told of {len(self.told)}")
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    """The inbox, which keeps what was done in the browser's storage."""
    folder = copytree(HTML, tmp_path / "site")
    kept = json.dumps(json.dumps({"config": CONFIG, "state": {"done": None}}))
    (folder / "start.html").write_text(f"<script>localStorage.kept = {kept}; location = 'inbox.html'</script>")
    deed = "state.did.push([deed, subject]);"
    inbox = (folder / "inbox.html").read_text().replace(deed, f"{deed} setTimeout(keep);")  # not only when it is left
    (folder / "inbox.html").write_text(inbox)
    (tmp_path / "clerk.py").write_text(AGENT)
    with serving(folder) as url:
        yield url


class Typed:
    """A shell at a pseudo-terminal."""

    def __init__(self, folder: Path, *words: str) -> None:
        self._main, side = pty.openpty()
        fcntl.ioctl(self._main, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
        about = {"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1", "SELFSURF_HOME": str(folder / "home")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "selfsurf.scripts.cli", "shell", "--agent", f"{folder}/clerk.py:Clerk", *words],
            stdin=side, stdout=side, stderr=side, cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1", **about},
            preexec_fn=_own_terminal,
        )  # fmt: skip
        os.close(side)
        self.seen = ""

    def type(self, text: str) -> None:
        self.seen = ""
        os.write(self._main, text.encode())

    def expect(self, text: str, seconds: float = 40, after: int = 0) -> str:
        """Wait until a text is shown after what was typed last, or after a place in it."""
        end = time.monotonic() + seconds
        while text not in self.seen[after:]:
            assert time.monotonic() < end, f"{text!r} is not in {self.seen!r}"
            if select.select([self._main], [], [], 0.1)[0]:
                try:
                    new = os.read(self._main, 65536).decode(errors="replace")
                except OSError:
                    raise AssertionError(f"It has ended: {self.seen}") from None
                self.seen += re.sub(r"\x1b(\[[0-9;?]*[a-zA-Z]|\][^\x07]*\x07|[=>])", "", new)
        return self.seen

    def ask(self, line: str, until: str) -> str:
        """Type a line, and wait for a text and the next prompt, which is not the one that the line is shown at."""
        self.type(line + "\r")
        after = self.expect(until).index(until)
        return self.expect("selfsurf>", 10, after) if "[y/N]" not in until and "asks" not in until else self.seen


def _own_terminal() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.fixture
def typed(tmp_path: Path) -> Iterator[Callable[..., Typed]]:
    started: list[Typed] = []

    def start(*words: str) -> Typed:
        started.append(Typed(tmp_path, *words))
        started[-1].expect("selfsurf>")
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
        one.process.wait()


def test_goals_are_given_confirmed_answered_and_interrupted_at_a_terminal(
    tmp_path: Path, site: str, typed: Callable[..., Typed]
) -> None:
    folder = tmp_path / "session"
    shell = typed("--session", str(folder), "--url", f"{site}/start.html")
    shell.ask("Delete Lunch", "Go ahead? [y/N]")
    assert "done. Not allowed." in shell.ask("no", "done.")
    shell.ask("Delete Lunch", "Go ahead? [y/N]")
    shell.type("yes\r")
    shell.expect("Go ahead? [y/N]", after=shell.expect("'Delete permanently'").index("'Delete permanently'"))
    assert "done. Lunch is gone" in shell.ask("y", "done.")
    shell.ask("Ask", "The agent asks: Which one?")
    assert "done. Keys" in shell.ask("Keys", "done.")
    shell.type("Sleep\r")
    shell.expect("Thinking")
    began = time.monotonic()
    shell.type("\x03")
    shell.expect("interrupted.")
    shell.expect("selfsurf>", 5)
    assert time.monotonic() - began < 10
    shell.ask("/find mINUTES", 'link "Minutes"')
    shell.ask("/find nowhere", 'No line has "nowhere".')
    page = shell.ask("/page", "Help")
    opened = browsers(descendants(shell.process.pid))
    assert ("Minutes" in page, "Lunch" in page) == (True, False), "the tabs are as they were"
    shell.type("/goa\t")
    shell.expect("/goals")
    shell.type("\r")
    assert "1. done: " in shell.expect("4. interrupted: Sleep")
    shell.type("\x1b[A\x1b[A")
    shell.expect("/page")
    shell.type("\x03")
    shell.expect("again, or Ctrl-D")
    shell.type("\x03")
    assert shell.process.wait(30) == 0
    outcomes = [Episode(folder / f"goal-{number}").meta["outcome_detail"] for number in range(1, 5)]
    assert outcomes == ["", "", "", "interrupted by the user"]
    steps = list(Episode(folder / "goal-2").steps())
    assert [step["risk"] and step["risk"]["confirmed"] for step in steps] == ["by the user", "by the user", None]
    history = (tmp_path / "home" / "shell_history").read_text()
    assert "+Delete Lunch" in history
    assert "+yes" not in history, "an answer is none of its lines"
    assert (folder / "session.json").stat().st_mode & 0o077 == 0
    assert opened
    assert gone(opened)


def test_what_was_typed_before_a_question_is_no_answer(tmp_path: Path, site: str, typed: Callable[..., Typed]) -> None:
    shell = typed("--url", f"{site}/start.html")
    shell.type("Ask\ryes\r")  # read together with the goal
    shell.expect("The agent asks: Which one?")
    assert "done. Keys" in shell.ask("Keys", "done.")
    shell.type("Delete Lunch\r")
    shell.expect("Delete Lunch")
    shell.type("yes\n")  # while the goal is carried out
    shell.expect("Go ahead? [y/N]")
    assert "done. Not allowed." in shell.ask("no", "done.")


def test_a_sigterm_ends_a_question_that_waits(tmp_path: Path, site: str, typed: Callable[..., Typed]) -> None:
    shell = typed("--url", f"{site}/start.html")
    shell.ask("Ask", "The agent asks: Which one?")
    shell.process.send_signal(signal.SIGTERM)
    assert shell.process.wait(30) == 143
    [folder] = (tmp_path / "runs").iterdir()
    assert Episode(folder / "goal-1").meta["outcome_detail"] == "interrupted by the user"


def test_an_interrupt_ends_a_question_that_waits_for_a_line(tmp_path: Path, site: str) -> None:
    command = [sys.executable, "-m", "selfsurf.scripts.cli", "shell", "--json", "--agent", "clerk.py:Clerk"]
    with subprocess.Popen(
        [*command, "--url", f"{site}/start.html"], cwd=tmp_path, text=True, stdin=-1, stdout=-1, stderr=-1
    ) as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None  # noqa: PT018
        process.stdin.write("Ask\n")
        process.stdin.flush()
        while "Which one?" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGINT)
        assert json.loads(process.stdout.readline())["outcome"] == "interrupted"
        process.stdin.close()
        assert process.wait(30) == 0


def piped(folder: Path, lines: list[str], *words: str, **more: Any) -> list[dict[str, Any]]:
    """What a shell answers to lines of an input that is no terminal."""
    command = [sys.executable, "-m", "selfsurf.scripts.cli", "shell", "--json", *words]
    done = subprocess.run(
        command, input="\n".join(lines), capture_output=True, text=True, cwd=folder, timeout=100, check=False, **more
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_a_session_keeps_where_its_files_are(tmp_path: Path, site: str) -> None:
    (tmp_path / "files").mkdir()
    piped(tmp_path, [], "--agent", "clerk.py:Clerk", "--upload-from", "files", "--session", "session")
    kept = json.loads((tmp_path / "session" / "session.json").read_text())["settings"]
    assert kept == {"agent": f"{tmp_path}/clerk.py:Clerk", "upload_from": [f"{tmp_path}/files"]}


@pytest.mark.slow
def test_a_session_is_gone_on_with_another_day_and_a_step_is_taken_back(tmp_path: Path, site: str) -> None:
    agent = ("--agent", f"{tmp_path}/clerk.py:Clerk", "--max-steps", "1", "--confirm", "auto")
    first = piped(
        tmp_path, ["Delete Lunch", "/nothing", "/steps 5", "/continue"], *agent, "--url", f"{site}/start.html"
    )
    assert [one.get("outcome", one) for one in first] == [
        "timeout", {"error": "There is no /nothing: see /help."}, {"steps": 5}, "done",
    ]  # fmt: skip
    assert first[3]["answer"] == "Lunch is gone; told of 1"
    [folder] = (tmp_path / "runs").iterdir()
    meta = Episode(folder / "goal-2").meta
    assert meta["continues"] == {"goal": "goal-1", "steps": 1}
    second = piped(
        tmp_path,
        ["Look", "/back", "/continue", "/back 9", f"/open {site}/start.html", "/open http://127.0.0.1:9/", "Look",
         "/mark solved it was there", "/view", "/goals"],
        "--last",
    )  # fmt: skip
    assert second[0]["answer"] == "Keys, Minutes", "the storage was kept, and the agent with its options"
    assert second[1]["url"].endswith("inbox.html")
    assert second[2]["outcome"] == "done"
    assert "taken back: 2." not in second[3]["error"]
    assert "The page did not load" in second[5]["error"]
    assert second[6]["answer"] == "nothing", "a page that does not load does not end the shell"
    assert second[7] == {"marked": "solved"}
    assert second[8]["episode"]["goal"] == "Look"
    assert [one["goal"] for one in second[9]["goals"]] == ["Delete Lunch", "Delete Lunch", "Look", "Look", "Look"]
    assert [one["outcome"] for one in second[9]["goals"]] == ["timeout", "done", "done", "done", "done"]
    verdict = verdict_of(folder / "goal-5")
    assert verdict is not None
    assert (verdict.says, verdict.why) == ("solved", "it was there")
    piped(tmp_path, [f"/open {site}/start.html", "Look"], "--last")
    [back] = piped(tmp_path, ["/back"], "--last")
    assert back["url"].endswith("inbox.html"), "on another day, too"
    piped(tmp_path, ["/continue"], "--last")
    assert Episode(folder / "goal-7").meta["continues"] == {"goal": "goal-6", "steps": 0}, "and it stays taken back"


@pytest.mark.slow
def test_a_sigterm_and_a_browser_that_dies(tmp_path: Path, site: str, typed: Callable[..., Typed]) -> None:
    shell = typed("--url", f"{site}/start.html")
    [browser] = browsers(descendants(shell.process.pid))
    browser.kill()
    assert gone([browser])
    assert "inbox.html was opened again" in shell.ask("Look", "done.")
    left = descendants(shell.process.pid)
    shell.process.send_signal(signal.SIGTERM)
    assert shell.process.wait(30) == 143
    assert gone(left)


@pytest.mark.slow
def test_what_the_shell_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "file").touch()
    for words, why in (
        (["--agent", "oracle"], "for goals in words"),
        (["--agent", "random", "--url", "nowhere"], "--url must be an address"),
        (["--agent", "random", "--session", "else"], "is not a session"),
        (["--agent", "random", "--last"], "session under runs/"),
        (["--agent", "random", "--set", "colour=1"], "colour"),
    ):
        result = CliRunner().invoke(app, ["shell", *words])
        assert (result.exit_code, why in re.sub(r"[│\s]+", " ", result.output)) == (2, True), result.output
    assert not (tmp_path / "runs").exists()
