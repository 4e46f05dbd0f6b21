"""A run of the graph whose process is really killed at each node, and gone on with: the site counts what was done."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from selfsurf.agents.graph.wiring import NODES
from selfsurf.browser_env.record.episode import Episode
from selfsurf.browser_env.session.detached import end_browser
from selfsurf.scripts.waiting.kept import WaitingRun
from tests.agents.graphs import call, trace_of
from tests.agents.policy_server import answer, completion, serve_raw

PAGE = b"""<title>Shop</title><p id=said>Welcome to the shop.</p>
<button onclick="fetch('/added', {method: 'POST'}).then(() => said.textContent = 'One in the basket.')">Add</button>
<button onclick="fetch('/deleted', {method: 'POST'}).then(() => said.textContent = 'It is gone.')">Delete account</button>"""

KILLED = """
import os, signal, sys
from selfsurf.agents.graph import wiring

name, when, left = os.environ.get("KILL_NODE"), os.environ.get("KILL_WHEN"), [int(os.environ.get("KILL_AT", "1"))]
node = wiring.node

def killing(which):
    part = node(which)
    if which != name:
        return part

    class Part:
        NEXT = part.NEXT
        route = staticmethod(part.route)

        @staticmethod
        def run(state, live):
            left[0] -= when == "before"
            if when == "before" and left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            change = part.run(state, live)
            left[0] -= when == "after"
            if when == "after" and left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return change

    return Part

wiring.node = killing

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

if name in ("sending", "recording"):
    from selfsurf.browser_env import AsyncBrowserEnv
    from selfsurf.browser_env.record.episode import EpisodeWriter

    of = {"sending": AsyncBrowserEnv, "recording": EpisodeWriter}[name]
    step = of.step

    def counted(self, *given, **more):
        left[0] -= 1
        return die() if left[0] == 0 else step(self, *given, **more)

    of.step = counted
from selfsurf.scripts.cli import app
app()
"""

ONCE = {"loop_mitigation": 1, "ask_user": 1, "error_retry": 1}
ADDING = {"observe": 4, "goal_check": 4, "planner": 4, "safety": 4, "confirm": 4, "execute": 4, "progress": 4}
DELETING = {"observe": 7, "goal_check": 7, "planner": 7, "safety": 6, "confirm": 6, "execute": 6, "progress": 5}
"""At which of its visits a node is at work on an action, or on what came of it."""


@pytest.fixture
def site() -> Iterator[Any]:
    """A shop that counts what is done."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(PAGE)

        def do_POST(self) -> None:
            server.done.append(self.path)
            self._answer(b"")

        def _answer(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.done = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def brain(body: dict[str, Any]) -> dict[str, Any]:
    """Go round in a circle, add once, fail once, ask once, delete once, finish: by page and steps so far."""
    text = body["messages"][-1]["content"]
    ids = dict(re.findall(r'button "(Add|Delete account)".*?\{"click":(\d+)', text))
    page = text[text.index("Page: ") :]
    if "It is gone." in page:
        return call("finish", "done")
    if text.count('{"scroll":"down"}') < 3:
        return call("scroll", "down")
    if "One in the basket." not in page:
        return call("click", int(ids["Add"]))
    if "focus_tab" not in text:
        return call("focus_tab", 7)
    if "Which account?" not in text:
        return call("ask_user", "Which account?")
    return call("click", int(ids["Delete account"]))


class Run:
    """A run of the graph that is killed, and then gone on with; what it asks is answered meanwhile."""

    def __init__(self, folder: Path, site: Any, **kill: object) -> None:
        self.kept = WaitingRun(folder / "runs" / "episode")
        self.folder, self.site = folder, site
        self.done: list[str] = []
        """What had been done when it was killed."""
        self.around = {name: str(value) for name, value in kill.items()}
        (folder / "killed.py").write_text(KILLED)

    def play(self, until: Callable[[dict[str, Any]], bool] = lambda question: False) -> None:
        """Play it, kill it, and go on; `until` says of a question whether to kill it then."""

        def handle(handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
            answer(handler, body=completion(**{"text": "", **brain(body)}))

        try:
            with serve_raw(handle, ["m"]) as url:
                sets = ("policy=openai", "model=m", f"base_url={url}", "retries=1", "confirm=user")
                status, out, err = self._command(
                    "run", "--wait", "--confirm", "auto", "--goal", "Add one, then delete the account.", "--out",
                    self.kept.folder, "--url", f"http://127.0.0.1:{self.site.server_port}/", "--agent", "graph",
                    "--max-steps", 25, "--json", *(f"--set={one}" for one in sets), until=until, **self.around,
                )  # fmt: skip
                assert status == -signal.SIGKILL, (out, err)
                self.done = [*self.site.done]
                assert (self.kept.running / "graph.sqlite").exists()
                question = self.kept.question
                said = [answered(question)] if question else []
                status, out, err = self._command("answer", self.kept.folder, *said, "--json")
        finally:
            end_browser(self.kept.browser)
        assert status == 0, (out, err)
        assert json.loads(out)["outcome"] == "stopped"
        assert self.site.done == ["/added", "/deleted"], "each once"
        steps = list(Episode(self.kept.folder).steps())
        assert [step["step"] for step in steps] == list(range(len(steps)))
        _, summary = trace_of(self.kept.folder)
        assert (summary["terminal_reason"], summary["steps"]) == ("goal_satisfied", len(steps))
        assert "resumed after" in (self.kept.folder / "logs" / "agent.log").read_text()
        assert not self.kept.running.exists()

    def _command(
        self, *words: Any, until: Callable[[dict[str, Any]], bool] = lambda question: False, **around: str
    ) -> tuple[int, str, str]:
        process = subprocess.Popen(
            [sys.executable, str(self.folder / "killed.py"), *map(str, words)], cwd=self.folder, text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", **around}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            while process.poll() is None:
                if (self.kept.folder / "episode.json").exists() and (question := self.kept.question):
                    if until(question):
                        break
                    self.kept.bring(question, answered(question))
                time.sleep(0.3)
        finally:
            process.kill()
        out, err = process.communicate()
        return process.returncode, out, err


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("name", "visit"), [*ONCE.items(), *ADDING.items(), *DELETING.items()])
def test_killed_at_a_node_nothing_is_done_twice(tmp_path: Path, site: Any, name: str, visit: int, when: str) -> None:
    assert {*ONCE, *ADDING} == {*NODES}
    Run(tmp_path, site, KILL_NODE=name, KILL_WHEN=when, KILL_AT=visit).play()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("step", "done"), [(4, []), (8, ["/added"])])
@pytest.mark.parametrize("point", ["sending", "recording"])
def test_killed_around_an_action_it_is_done_once(
    tmp_path: Path, site: Any, point: str, step: int, done: list[str]
) -> None:
    run = Run(tmp_path, site, KILL_NODE=point, KILL_AT=step)
    run.play()
    assert run.done == (done if point == "sending" else ["/added", "/deleted"][: len(done) + 1])


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("words", ["Which account?", "wants to"])
def test_killed_while_it_waits_for_an_answer(tmp_path: Path, site: Any, words: str) -> None:
    Run(tmp_path, site).play(until=lambda question: words in question["text"])


def answered(question: dict[str, Any]) -> str:
    """What the user says."""
    return "yes" if "wants to" in question["text"] else "All."
