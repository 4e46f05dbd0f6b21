"""`selfsurf bench run --ray`: the same results as without, also when a worker is killed on the way."""

import contextlib
import subprocess
import time

import psutil
import pytest

from tests.scripts.test_bench_run import bench, command, essence, results

pytest.importorskip("ray")
WORDS = ("miniwob", "--agent", "random", "--task", "click-dialog", "--task", "click-option", "--seeds", 12)


def actors(pid):
    found = []
    for process in psutil.Process(pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if "ray::_Remote" in " ".join(process.cmdline()):
                found.append(process)
    return found


@pytest.mark.slow
def test_a_killed_actor_changes_nothing(tmp_path):
    bench(*WORDS, "--out", tmp_path / "local")
    words = (*WORDS, "--ray", "--processes", 2, "--out", tmp_path / "ray")
    process = subprocess.Popen(command(*words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    lines = tmp_path / "ray" / "results.jsonl"
    while not lines.exists() or not lines.read_bytes():
        assert process.poll() is None
        time.sleep(0.02)
    actors(process.pid)[0].kill()
    assert process.wait(100) == 0
    assert essence(results(tmp_path / "ray")) == essence(results(tmp_path / "local"))
    for record in results(tmp_path / "ray").values():
        folder = tmp_path / "ray" / record["episode"]
        assert (folder / "steps.jsonl").read_text().count("\n") == record["steps"]
        assert record["screenshot"] is None or (tmp_path / "ray" / record["screenshot"]).exists()
