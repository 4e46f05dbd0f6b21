import json
import os
import subprocess
import sys
import textwrap
import time
import zipfile
from pathlib import Path

import pytest

from selfsurf.scripts.machine.processes import cpu_seconds, descendants, kill_tree, memory
from selfsurf.scripts.peers import peer as peers
from selfsurf.scripts.peers.environments import PeerError, Requirements, browser_wrapper, home, make
from selfsurf.scripts.peers.peer import Peer, open_peer
from tests.processes import ended

WORKER = Path(peers.__file__).parent / "worker.py"

SIDE = """
import os, subprocess, sys, time

class Side:
    def __init__(self):
        print("noise of a library")
        os.write(1, b"more of it\\n")

    def add(self, a, b):
        return a + b

    def fail(self):
        raise ValueError("no such thing\\nat all")

    def child(self):
        return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True).pid

    def sleep(self, seconds):
        time.sleep(seconds)

    def leave(self):
        os._exit(3)

    def close(self):
        open(os.environ["MARK"], "w").write("closed")
"""


@pytest.fixture
def wheels(tmp_path):
    """A folder with a package tinypeer 1.0 for pip."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    with zipfile.ZipFile(folder / "tinypeer-1.0-py3-none-any.whl", "w") as wheel:
        info = "tinypeer-1.0.dist-info"
        wheel.writestr("tinypeer.py", "size = 1\n")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tinypeer\nVersion: 1.0\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", f"tinypeer.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return folder


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SELFSURF_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def requirements(wheels, *packages):
    return Requirements(packages, pip_options=("--no-index", "--find-links", str(wheels)))


@pytest.mark.timeout(300)
@pytest.mark.slow
def test_an_environment_is_made_anew_after_a_failure_and_then_kept(cache, wheels):
    with pytest.raises(PeerError, match=r"tiny could not be installed: ERROR: .*tinypeer==2\.0.*venv\.log"):
        make("tiny", requirements(wheels, "tinypeer==2.0"))
    half = home("tiny") / "venv" / "half-made"
    half.touch()  # what was cut off lies there, but does not count as made

    wanted = requirements(wheels, "tinypeer==1.0")
    python = make("tiny", wanted)
    assert python.is_relative_to(cache)
    assert not half.exists()
    assert subprocess.run([python, "-c", "import tinypeer"], check=False).returncode == 0

    half.touch()
    assert make("tiny", wanted) == python
    assert half.exists()


def test_a_python_that_is_too_new_is_said_to_be(cache):
    with pytest.raises(PeerError, match=r"older than 3\.4"):
        make("old", Requirements(("tinypeer",), python_below=(3, 4)))


def test_an_unknown_peer_is_said_to_be():
    with pytest.raises(PeerError, match=r"no peer 'other'; choose from browsergym, browser-use"):
        open_peer("other")


def test_the_wrapper_runs_our_browser(tmp_path, monkeypatch):
    fake = tmp_path / "chrome with a space"
    fake.write_text('#!/bin/sh\necho "$@"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("SELFSURF_BROWSER", str(fake))
    wrapper = browser_wrapper(tmp_path / "a" / "chrome")
    done = subprocess.run([wrapper, "--x", "a b"], capture_output=True, text=True, check=True)
    assert done.stdout == "--no-sandbox --disable-gpu --x a b\n"


@pytest.fixture
def worker(tmp_path):
    side = tmp_path / "side.py"
    side.write_text(textwrap.dedent(SIDE))
    command = [sys.executable, "-P", str(WORKER), str(side)]
    with Peer("tiny", command, {"MARK": str(tmp_path / "mark")}, tmp_path / "worker.log") as peer:
        yield peer


def test_a_worker_answers_whatever_its_libraries_print(worker, tmp_path):
    assert worker.call("add", 10, a=2, b=3) == 5
    assert worker.call("add", 10, a="x", b="y\n") == "xy\n"
    worker.close()
    assert (tmp_path / "mark").read_text() == "closed"
    assert "noise of a library" in (tmp_path / "worker.log").read_text()
    with pytest.raises(PeerError, match="closed"):
        worker.call("add", 10, a=2, b=3)


def test_a_failure_is_told_and_the_worker_goes_on(worker):
    with pytest.raises(PeerError, match=r"^tiny failed: ValueError: no such thing$"):
        worker.call("fail", 10)
    with pytest.raises(PeerError, match="AttributeError"):
        worker.call("unknown", 10)
    assert worker.call("add", 10, a=2, b=3) == 5


def test_a_worker_that_hangs_is_killed_with_all_below_it(worker):
    child = worker.call("child", 10)
    start = time.monotonic()
    with pytest.raises(PeerError, match=r"tiny did not answer within 0\.5 s"):
        worker.call("sleep", 0.5, seconds=60)
    assert time.monotonic() - start < 10
    assert ended(child)
    assert worker.call("add", 10, a=2, b=3) == 5  # by another worker


def test_a_worker_that_ends_by_itself_is_noticed(worker):
    with pytest.raises(PeerError, match=r"exited.*worker\.log"):
        worker.call("leave", 10)
    assert worker.call("add", 10, a=2, b=3) == 5


def test_processes_below_are_found_measured_and_ended():
    script = """
import subprocess, time
subprocess.Popen(["sleep", "600"])
while time.process_time() < 0.1:  # the system counts in steps of 10 ms
    pass
print("up", flush=True)
time.sleep(600)
"""
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, start_new_session=True)
    process.stdout.readline()
    below = descendants(process.pid)
    assert len(below) == 1
    assert process.pid in descendants(os.getpid())
    if sys.platform == "linux":
        assert 1 < memory(process.pid) < 200
        assert cpu_seconds(process.pid)["python"] > 0
    kill_tree(process.pid)
    process.wait(10)
    assert ended(below[0])


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["browsergym", "browser-use"])
def test_the_real_peers_observe_a_page(name, tmp_path):
    from selfsurf.scripts.machine.loopback import serving

    (tmp_path / "index.html").write_text("<title>t</title>" + "<button>Press me</button>" * 20)
    with serving(tmp_path) as url, open_peer(name) as peer:
        seen = peer.observe(f"{url}/index.html", 2)
        below = descendants(peer._worker.pid)
    assert len(seen["seconds"]) == 2
    assert min(seen["seconds"]) > 0.01
    assert seen["characters"] > 20 * len("Press me")
    assert seen["missing"] == []
    assert below
    assert all(ended(pid) for pid in below)
    assert json.dumps(seen)
