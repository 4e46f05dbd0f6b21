"""Two processes that compute with torch on the same cores share them."""

import json
import os
import subprocess
import sys

import pytest

from selfsurf import threads

WORK = """
import sys, time
import selfsurf
import torch

torch.set_num_threads(2)
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
    assert min(both) > alone / 3, (alone, both)  # of a half; less than a fifth while waiting threads keep their core


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, {"GOMP_SPINCOUNT": "1000"}),
        ({"GOMP_SPINCOUNT": "", "OMP_WAIT_POLICY": ""}, {"GOMP_SPINCOUNT": "1000"}),
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
