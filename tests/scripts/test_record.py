"""`selfsurf record`: a real window under Xvfb, a mouse and a keyboard of the X server, and what is refused."""

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from selfsurf import browser_env
from selfsurf.browser_env.browser.browsers import find_browser
from selfsurf.browser_env.errors import BrowserNotFound
from selfsurf.browser_env.record.episode import Episode, EpisodeWriter
from selfsurf.browser_env.record.recorder import Recorder
from selfsurf.scripts import cli, record
from tests.browser_env.conftest import loopback  # noqa: F401  (a fixture)
from tests.browser_env.record.person import Person
from tests.processes import until


def run(*arguments):
    return CliRunner().invoke(cli.app, ["record", *arguments])


def said(refused):
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", refused.stderr).split())


def test_what_is_missing_is_said_before_anything_begins(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setenv("SELFSURF_BROWSER", sys.executable)  # any program with another name than the headless shell's
    if sys.platform != "darwin":
        refused = run("--url", "http://a.test")
        assert refused.exit_code == 2
        assert "There is no display for a window (DISPLAY is not set): run this under xvfb-run" in said(refused)
    shell = tmp_path / "chromium-headless-shell"
    shell.write_text("#!/bin/sh\n")
    shell.chmod(0o755)
    monkeypatch.setenv("SELFSURF_BROWSER", str(shell))
    refused = run("--url", "http://a.test", "--out", str(tmp_path / "e"))
    assert refused.exit_code == 2
    assert "has no window: install a full Chromium" in said(refused)
    assert not {"e", "runs"} & {path.name for path in tmp_path.iterdir()}


def test_a_damaged_episode_is_not_played_again(tmp_path):
    folder = tmp_path / "episode"
    EpisodeWriter(folder, {"goal": "Buy."}).finish("solved", trainable=True)
    (folder / "episode.json").write_text((folder / "episode.json").read_text().replace("Buy.", "Sell."))
    refused = run("--replay", str(folder))
    assert refused.exit_code == 2
    assert "The episode is damaged: episode.json is damaged. Nothing was played" in said(refused)


def test_an_episode_opens_nothing_of_the_own_network_and_gets_no_secret_unless_told_so(
    tmp_path, monkeypatch, loopback  # noqa: F811
):  # fmt: skip
    asked = []
    server = loopback(lambda request: asked.append(request.path) or b"<title>Shop</title>")
    address, private = f"{server.url}/", tmp_path / "page.html"
    private.write_text("<p>mine</p>")
    for name, url in (("site", address), ("file", private.as_uri())):
        EpisodeWriter(tmp_path / name, {"goal": "Look.", "url": url}).finish("stopped", trainable=False)
    refused = run("--replay", str(tmp_path / "site"))
    assert refused.exit_code == 1
    assert "private network" in said(refused)
    assert "If you trust the episode and the site, add --allowed 127.0.0.1." in said(refused)
    assert "/" not in asked
    refused = run("--replay", str(tmp_path / "file"))
    assert refused.exit_code == 1
    assert "could not be opened: file outside of the allowed folders" in said(refused)
    monkeypatch.setenv("PASSWORD", "lovelace42")
    refused = run("--replay", str(tmp_path / "site"), "--allowed", "127.0.0.1", "--secret", "password=env:PASSWORD")
    assert refused.exit_code == 2
    assert "--secret password@HOST=env:PASSWORD" in said(refused)
    bound = ["--secret", "password@127.0.0.1=env:PASSWORD"]
    played = run("--replay", str(tmp_path / "site"), "--allowed", "127.0.0.1", *bound)
    assert "0 of 0 actions done" in played.stdout, played.output
    assert "/" in asked


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "Give --url, --goal or both"),
        (["--url", "http://a.test", "--task", "MiniWoB/click-test-v0"], "Give --url, --goal or both"),
        (["--task", "MiniWoB/click-test-v0", "--goal", "x"], "a task has its own goal"),
        (["--url", "http://a.test", "--outcome", "great"], "--outcome must be ask, solved, failed or stopped"),
        (["--url", "notaurl"], "--url must be an address such as https://example.org"),
        (["--url", "http://a.test", "--out", __file__], "is a file; give a folder"),
        (["--url", "http://a.test", "--secret", "password"], "a secret is NAME=env:VARIABLE"),
    ],
)
def test_arguments_that_make_no_sense(arguments, why):
    refused = run(*arguments)
    assert refused.exit_code == 2
    assert why in said(refused)


class Terminal(io.StringIO):
    """Where a person presses Ctrl-D, or Ctrl-C."""

    def __init__(self, pressed):
        super().__init__()
        self.pressed = pressed

    def isatty(self):
        return True

    def readline(self, *size):
        raise self.pressed


@pytest.mark.parametrize("pressed", [EOFError, KeyboardInterrupt])
def test_who_does_not_say_whether_the_goal_was_reached_keeps_the_recording(tmp_path, monkeypatch, pressed):
    def interrupted(recorder):
        raise KeyboardInterrupt

    env, task = browser_env.AsyncBrowserEnv, browser_env.Task(start_url="data:text/html,Shop", goal="Order.")
    monkeypatch.setattr(browser_env, "AsyncBrowserEnv", lambda **options: env(**{**options, "headless": True}))
    monkeypatch.setattr(Recorder, "wait", interrupted)
    monkeypatch.setattr(sys, "stdin", Terminal(pressed))
    assert record._record(record.Settings(), (None, task), {}, tmp_path / "episode") == 0
    assert Episode(tmp_path / "episode").meta["outcome"] == "stopped"


TOYS = """data:text/html,<label>Toy<select><option>Ball<option>Rope<option>Kite</select></label>
<label>Size<select><option>S<option>M</select></label><label><input type=checkbox>Gift wrap</label><button>Order</button>"""


def test_choices_that_one_recording_cannot_teach_are_said_when_it_ends(tmp_path, monkeypatch, capsys):
    def order(recorder):
        person = Person(recorder)
        person.ready()
        for field in ("Toy", "Size"):
            person.do(lambda page, field=field: page.get_by_label(field).focus())
            person.press("ArrowDown")
        person.click("input")
        person.click("button")
        person.until(lambda: recorder.steps == 4)
        raise KeyboardInterrupt

    env, task = browser_env.AsyncBrowserEnv, browser_env.Task(start_url=TOYS, goal="Order a rope.")
    monkeypatch.setattr(browser_env, "AsyncBrowserEnv", lambda **options: env(**{**options, "headless": True}))
    monkeypatch.setattr(Recorder, "wait", order)
    assert record._record(record.Settings(outcome="solved"), (None, task), {}, tmp_path / "episode") == 0
    said = " ".join(capsys.readouterr().err.split())
    for choice in ("Size: always M", "Gift wrap: always ticked"):
        assert f"One recording can't teach this choice. {choice}; record another episode whose goal asks for" in said
    assert said.count("can't teach") == 2


INDEX = """<!doctype html><title>Shop</title><style>* { position: absolute; width: 200px; height: 60px; margin: 0 }</style>
<input aria-label=Name style='left:20px;top:20px'><select aria-label=Size style='left:20px;top:120px'><option>S<option>M<option>L</select>
<a href=/new target=_blank style='left:20px;top:220px'>New</a>
<script>addEventListener('mousemove', e => fetch(`/at?${e.screenX - e.clientX},${e.screenY - e.clientY}`))</script>"""
NEW = """<!doctype html><title>New</title><style>* { position: absolute; width: 200px; height: 60px; margin: 0 }</style>
<button style='left:20px;top:20px' onclick="fetch('/done'); this.textContent = confirm('Sure?') ? 'Thanks' : 'Kept'">Done</button>"""
THIRD = "<!doctype html><title>Third</title><p>third"


@pytest.fixture
def display():
    """The name of a display of its own, or a skip where there is none to be had."""
    if sys.platform != "linux" or not shutil.which("Xvfb") or not shutil.which("xdotool"):
        pytest.skip("needs Xvfb and xdotool")
    try:
        found = find_browser(headless=False)
    except BrowserNotFound:
        found = "headless only"
    if "headless" in os.path.basename(found):
        pytest.skip("needs a Chromium with a window")
    read, write = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(write), "-screen", "0", "1400x1000x24", "-nolisten", "tcp"],
        pass_fds=[write], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(write)
    with os.fdopen(read) as told:
        name = f":{told.readline().strip()}"
    yield name
    server.terminate()
    server.wait(10)


@pytest.mark.slow
def test_a_person_at_a_real_window(display, loopback, tmp_path):  # noqa: F811
    asked = []

    def answer(request):
        asked.append(request.path)
        return {"/": INDEX, "/new": NEW, "/third": THIRD}.get(request.path, "").encode()

    server = loopback(answer)
    env = {**os.environ, "DISPLAY": display}
    folder = tmp_path / "episode"
    command = [sys.executable, "-m", "selfsurf.scripts.cli", "record"]
    recording = subprocess.Popen(
        [*command, "--url", f"{server.url}/", "--goal", "Order.", "--out", str(folder), "--outcome", "solved", "--json"],
        env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip

    def x(*arguments):
        return subprocess.run(["xdotool", *arguments], env=env, capture_output=True, text=True).stdout.strip()

    def recorded():
        path = folder / "steps.jsonl"
        return path.read_text().count("\n") if path.exists() else 0

    try:
        assert until(
            lambda: (folder / "episode.json").exists() and x("search", "--onlyvisible", "--class", "chromium"), 40
        )
        x("windowfocus", x("search", "--onlyvisible", "--class", "chromium").split()[0])
        x("mousemove", "500", "600")
        x("mousemove", "510", "610")
        assert until(lambda: any(path.startswith("/at?") for path in asked))
        left, top = (int(part) for part in next(path for path in asked if path.startswith("/at?"))[4:].split(","))

        def click(px, py):
            x("mousemove", str(left + px), str(top + py))
            time.sleep(0.1)
            x("click", "1")
            time.sleep(0.3)

        click(60, 50)
        x("type", "--delay", "30", "Ada")
        click(60, 150)
        x("key", "Down")
        x("key", "Return")
        time.sleep(1)
        click(40, 230)
        assert until(lambda: "/new" in asked)
        time.sleep(2)
        x("key", "ctrl+l")
        x("type", "--delay", "30", f"{server.url.removeprefix('http://')}/third")
        x("key", "Return")
        assert until(lambda: "/third" in asked)
        time.sleep(2)
        x("key", "alt+Left")
        assert until(lambda: recorded() >= 5, 15)
        time.sleep(0.5)
        click(60, 50)
        assert until(lambda: "/done" in asked)
        time.sleep(1)
        x("key", "Escape")
        assert until(lambda: recorded() >= 6)
        recording.send_signal(signal.SIGINT)
        out, errors = recording.communicate(timeout=30)
    finally:
        recording.kill()
    assert recording.returncode == 0, errors
    summary = json.loads(out)
    assert (summary["outcome"], summary["steps"]) == ("solved", 7), errors

    def told(step):
        (action,) = step["actions"]
        names = {element["id"]: element["name"] for element in step["observation"]["elements"]}
        return {**action, "id": names[action["id"]]} if "id" in action else action

    assert [told(step) for step in Episode(folder).steps()] == [
        {"action": "fill", "id": "Name", "text": "Ada"},
        {"action": "select", "id": "Size", "options": ["M"]},
        {"action": "click", "id": "New"},
        {"action": "navigate", "url": f"{server.url}/third"},
        {"action": "back"},
        {"action": "click", "id": "Done"},
        {"action": "finish"},
    ]
    final = Episode(folder).meta["final"]
    assert [tab["url"] for tab in final["tabs"]] == [f"{server.url}/", f"{server.url}/new"]
    assert final["events"] == []
    assert list(Episode(folder).steps())[-2]["events"] == ["confirm dialog dismissed: Sure?"]
    assert 'button "Kept"' in final["dom"]
    assert '{"action": "fill"' in errors  # told live

    replayed = subprocess.run(
        [*command, "--replay", str(folder), "--allowed", "127.0.0.1", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    result = json.loads(replayed.stdout)
    assert replayed.returncode == 0, replayed.stderr
    assert (result["complete"], result["same_outcome"], len(result["steps"])) == (True, True, 7)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["closed", "SIGTERM"])
def test_closing_the_window_or_sigterm_ends_the_recording(display, loopback, tmp_path, how):  # noqa: F811
    server = loopback(lambda request: INDEX.encode())
    env = {**os.environ, "DISPLAY": display}
    folder = tmp_path / "episode"
    recording = subprocess.Popen(
        [sys.executable, "-m", "selfsurf.scripts.cli", "record", "--url", f"{server.url}/", "--out", str(folder), "--json"],
        env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip

    def x(*arguments):
        return subprocess.run(["xdotool", *arguments], env=env, capture_output=True, text=True).stdout.strip()

    try:
        assert until(
            lambda: (folder / "episode.json").exists() and x("search", "--onlyvisible", "--class", "chromium"), 40
        )
        x("windowfocus", x("search", "--onlyvisible", "--class", "chromium").split()[0])
        time.sleep(1)
        if how == "SIGTERM":
            recording.terminate()
        else:
            x("key", "ctrl+shift+w")
        out, errors = recording.communicate(timeout=30)
    finally:
        recording.kill()
    assert recording.returncode == 0, errors
    assert json.loads(out) == {
        "episode": str(folder),
        "steps": 0,
        "outcome": "stopped",
        "reward": 0.0,
        "trainable": False,
    }
