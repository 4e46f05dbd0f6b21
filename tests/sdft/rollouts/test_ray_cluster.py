"""The cluster that rollouts are made on, where there are others."""

import os
import shutil
import subprocess
import sys
import tempfile
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


def address_in(folder, **more):
    env = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    env |= {"RAY_TMPDIR": str(folder), "RAY_AUTH_MODE": "disabled", **more}
    done = subprocess.run(
        [sys.executable, "-c", ADDRESS], env=env, capture_output=True, text=True, timeout=60 * crowd(), check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.split()[-1]


@pytest.mark.slow
def test_an_address_left_behind_is_passed_over(folder):
    (folder / "ray").mkdir()
    (folder / "ray" / "ray_current_cluster").write_text(LEFT)
    assert address_in(folder) != LEFT


@pytest.mark.slow
def test_a_running_cluster_is_used_only_where_it_is_named(folder):
    env = {**os.environ, "RAY_TMPDIR": str(folder), "RAY_AUTH_MODE": "disabled"}
    words = ["start", "--head", "--port=0", "--num-cpus=1", "--include-dashboard=false", "--block"]
    head = subprocess.Popen(
        [Path(sys.executable).with_name("ray"), *words], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        known = folder / "ray" / "ray_current_cluster"
        assert until(lambda: known.exists() and known.read_text().strip(), 60)
        foreign = known.read_text().strip()
        assert address_in(folder, RAY_ADDRESS=foreign) == foreign
        assert address_in(folder) != foreign
    finally:
        head.terminate()
        head.wait(30)
