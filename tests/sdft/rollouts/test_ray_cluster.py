"""The cluster that rollouts are made on, where there are others."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.processes import crowd, until

pytest.importorskip("ray")

LEFT = "192.0.2.77:6390"
"""Where nobody listens."""

ADDRESS = """
from selfsurf.sdft.rollouts.ray_cluster import connected
with connected():
    import ray
    print(ray.get_runtime_context().gcs_address)
"""


@pytest.fixture
def folder():
    made = tempfile.mkdtemp(prefix="ray", dir="/tmp")  # the paths of Ray's sockets have to be short
    yield Path(made)
    shutil.rmtree(made, ignore_errors=True)


TERMINATED = """
import os, signal, sys
from selfsurf.scripts.terminal.interrupts import Interrupts
from selfsurf.sdft.rollouts.ray_cluster import connected
with Interrupts() as interrupts:
    try:
        with connected():
            os.kill(os.getpid(), signal.SIGTERM)
            signal.sigtimedwait([signal.SIGUSR1], 60)
    except KeyboardInterrupt:
        pass
sys.exit(interrupts.exit_code)
"""


def run(program, folder, **more):
    env = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    env |= {"RAY_TMPDIR": str(folder), "RAY_AUTH_MODE": "disabled", **more}
    return subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=60 * crowd(), check=False
    )


def test_an_address_where_nothing_listens_is_refused_at_once(folder):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    start = time.monotonic()
    done = run(ADDRESS, folder, RAY_ADDRESS=address)
    assert f"ConnectionError: No Ray head answers at {address}; unset RAY_ADDRESS to start one." in done.stderr
    assert time.monotonic() - start < 20 * crowd()


@pytest.mark.slow
def test_a_sigterm_while_connected_is_the_commands_own(folder):
    done = run(TERMINATED, folder)
    assert done.returncode == 128 + signal.SIGTERM, done.stderr[-2000:]


def address_in(folder, **more):
    done = run(ADDRESS, folder, **more)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.split()[-1]


@pytest.mark.slow
def test_an_address_left_behind_is_passed_over(folder):
    (folder / "ray").mkdir()
    (folder / "ray" / "ray_current_cluster").write_text(LEFT)
    assert address_in(folder) != LEFT


@pytest.mark.slow
def test_a_running_cluster_is_used_only_where_it_is_named(folder):
    token = folder / "token"
    token.write_text("a" * 64)
    wants = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
    env = {**os.environ, "RAY_TMPDIR": str(folder), **wants}
    words = ["start", "--head", "--port=0", "--num-cpus=1", "--include-dashboard=false", "--block"]
    head = subprocess.Popen(
        [Path(sys.executable).with_name("ray"), *words], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        known = folder / "ray" / "ray_current_cluster"
        assert until(lambda: known.exists() and known.read_text().strip(), 60)
        foreign = known.read_text().strip()
        assert address_in(folder, RAY_ADDRESS=foreign, **wants) == foreign
        assert address_in(folder) != foreign
        assert (
            "If the Ray head requires a token, set RAY_AUTH_MODE=token."
            in run(ADDRESS, folder, RAY_ADDRESS=foreign).stderr
        )
    finally:
        head.terminate()
        head.wait(30)
