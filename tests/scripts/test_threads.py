"""Two processes that compute with torch on the same cores share them."""

import json
import os
import subprocess
import sys

import pytest

from selfsurf import threads

WORK = """
import sys, time
from selfsurf import threads
import torch

threads.share_cores()
weights = [(torch.randn(576, 1536) * 0.02, torch.randn(1536, 576) * 0.02) for _ in range(6)]
x = torch.randn(192, 576, requires_grad=True)

def step():
    y = x
    for up, down in weights:
        y = y + torch.nn.functional.silu(torch.nn.functional.layer_norm(y, (576,)) @ up) @ down
    y.pow(2).mean().backward()

step()
print("ready", flush=True)
sys.stdin.readline()
end = time.monotonic() + 2.5  # by then they have seen each other
while time.monotonic() < end:
    step()
start, count = time.monotonic(), 0
while time.monotonic() < start + 4:
    step()
    count += 1
print(count)
"""


def without():
    """The environment without what says how threads wait."""
    return {name: value for name, value in os.environ.items() if name not in threads.VARIABLES}


def steps(processes):
    """The steps that each makes in the same seconds."""
    environment = without()
    started = [
        subprocess.Popen([sys.executable, "-c", WORK], env=environment, stdin=-1, stdout=-1, text=True)
        for _ in range(processes)
    ]
    for process in started:
        process.stdout.readline()
    for process in started:
        process.stdin.write("\n")
        process.stdin.flush()
    return [int(process.communicate()[0]) for process in started]


@pytest.mark.slow
def test_a_second_process_takes_half():
    (alone,) = steps(1)
    both = steps(2)
    assert min(both) > alone * 0.4, (alone, both)  # of a half; less than a fifth while waiting threads keep their core


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, {"GOMP_SPINCOUNT": "10000"}),
        ({"GOMP_SPINCOUNT": "", "OMP_WAIT_POLICY": ""}, {"GOMP_SPINCOUNT": "10000"}),
        ({"GOMP_SPINCOUNT": "5"}, {"GOMP_SPINCOUNT": "5"}),
        ({"OMP_WAIT_POLICY": "active"}, {"OMP_WAIT_POLICY": "active"}),
    ],
)
@pytest.mark.parametrize("module", ["selfsurf", "selfsurf.sdft.rollouts.ray_policy", "selfsurf.scripts.cli"])
def test_what_the_user_has_set_is_left(given, found, module):
    code = f"import {module}, json; from selfsurf import threads; print(json.dumps(threads.in_force()))"
    done = subprocess.run([sys.executable, "-c", code], env=without() | given, capture_output=True, check=True)
    assert json.loads(done.stdout) == found


def test_it_is_set_before_torch_is_loaded():
    code = "import sys\nfrom selfsurf import threads\nassert 'torch' not in sys.modules, 'too late'"
    subprocess.run([sys.executable, "-c", code], env=without(), check=True)


BESIDE = """
import subprocess, sys, time
from selfsurf import threads
import torch

threads.LOOK = 0.3
threads.share_cores()
torch.set_num_threads(2)  # on a machine with more cores this leaves some to others
torch.randn(2000, 2000) @ torch.randn(2000, 2000)

def told(expected):
    end = time.monotonic() + (30 if threads._sharing else 0)
    while threads.sharing() != expected and time.monotonic() < end:
        time.sleep(0.1)
    return threads.sharing()

cores = len(__import__("os").sched_getaffinity(0))
loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(cores)]
print(told(True))
for loop in loops:
    loop.kill()
    loop.wait()
threads._busy = lambda cores: time.process_time()  # now nobody else does anything
print(told(False))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="torch has GNU's OpenMP on Linux only")
@pytest.mark.slow
@pytest.mark.parametrize("given", [{}, {"GOMP_SPINCOUNT": "1000"}])
def test_room_is_made_for_as_long_as_others_want_the_cores(given):
    words = [sys.executable, "-c", BESIDE]
    done = subprocess.run(words, env=without() | given, capture_output=True, check=True, text=True)
    assert done.stdout.split() == [str(not given), "False"], done.stderr


def test_work_of_cores_is_read_from_the_system(tmp_path, monkeypatch):
    (stat := tmp_path / "stat").write_text(
        "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 100 10 20 5000 7 3 2 1 0 0\ncpu1 40 0 0 0 0 0 0 0 0 0\n"
        "cpu2 7000 0 0 0 0 0 0 0 0 0\nintr 1 2\nctxt 5\n"
    )
    monkeypatch.setattr(threads, "_STAT", stat)
    assert threads._busy({0, 1}) * os.sysconf("SC_CLK_TCK") == pytest.approx(175)
