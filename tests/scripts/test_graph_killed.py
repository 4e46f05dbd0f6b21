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
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from selfsurf.agents.graph.wiring import NODES
from selfsurf.browser_env.record.episode import Episode
from selfsurf.browser_env.session.detached import end_browser
from selfsurf.scripts.waiting.kept import KeptRun
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
from selfsurf.scripts.cli import app
app()
"""


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


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("name", NODES)
def test_killed_at_a_node_nothing_is_done_twice(tmp_path: Path, site: Any, name: str, when: str) -> None:
    kept = KeptRun(tmp_path / "runs" / "episode")
    (tmp_path / "killed.py").write_text(KILLED)

    def handle(handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        answer(handler, body=completion(**{"text": "", **brain(body)}))

    def run(*words: Any, kill: str = "") -> tuple[int, str, str]:
        """Run a command, and answer what it asks meanwhile."""
        at = "1" if name in ("ask_user", "error_retry", "loop_mitigation") else "2"
        around = {**os.environ, "OMP_NUM_THREADS": "1", "KILL_NODE": kill, "KILL_WHEN": when, "KILL_AT": at}
        process = subprocess.Popen(
            [sys.executable, str(tmp_path / "killed.py"), *map(str, words)], env=around, cwd=tmp_path,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            while process.poll() is None:
                if (kept.folder / "episode.json").exists() and (question := kept.question):
                    kept.bring(question, answered(question))
                time.sleep(0.3)
        finally:
            process.kill()
        return process.returncode, *process.communicate()

    try:
        with serve_raw(handle, ["m"]) as url:
            sets = ("policy=openai", "model=m", f"base_url={url}", "retries=1", "confirm=user")
            status, out, err = run(
                "run", "--wait", "--confirm", "auto", "--goal", "Add one, then delete the account.", "--out",
                kept.folder, "--url", f"http://127.0.0.1:{site.server_port}/", "--agent", "graph", "--max-steps", 25,
                "--json", *(f"--set={one}" for one in sets), kill=name,
            )  # fmt: skip
            assert status == -signal.SIGKILL, (out, err)
            assert (kept.running / "graph.sqlite").exists()
            question = kept.question
            status, out, err = run("answer", kept.folder, *([answered(question)] if question else []), "--json")
    finally:
        end_browser(kept.browser)
    assert status == 0, (out, err)
    assert json.loads(out)["outcome"] == "stopped"
    assert site.done == ["/added", "/deleted"], "each once"
    steps = list(Episode(kept.folder).steps())
    assert [step["step"] for step in steps] == list(range(len(steps)))
    _, summary = trace_of(kept.folder)
    assert (summary["terminal_reason"], summary["steps"]) == ("goal_satisfied", len(steps))
    assert "taken up after" in (kept.folder / "logs" / "agent.log").read_text()
    assert not kept.running.exists()


def answered(question: dict[str, Any]) -> str:
    """What the user says."""
    return "yes" if "wants to" in question["text"] else "All."
