"""Timing of torch programs, alone and concurrent, by how long their threads spin before they sleep."""

from __future__ import annotations

import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selfsurf import threads
from selfsurf.scripts.terminal.console import progress

SETTINGS: dict[str, dict[str, str]] = {
    "300000": {"GOMP_SPINCOUNT": "300000"},  # GNU's default
    "30000": {"GOMP_SPINCOUNT": "30000"},
    "1000": {"GOMP_SPINCOUNT": "1000"},
    "passive": {"OMP_WAIT_POLICY": "PASSIVE"},
    "selfsurf": {},  # the settings of `selfsurf.threads`
}
"""Environment variables of each setting: values of `GOMP_SPINCOUNT`, `OMP_WAIT_POLICY=PASSIVE`, or neither."""

PASSES = 60
"""Forward and backward passes of the timed network."""

ENVIRONMENTS = 8
"""Number of environments that are stepped during a training."""

TASK = "MiniWoB/click-link-v0"

_PASSES = f"""
import sys, time
from selfsurf import threads
import torch
threads.share_cores()
weights = [(torch.randn(576, 1536) * 0.02, torch.randn(1536, 576) * 0.02) for _ in range(6)]
x = torch.randn(192, 576, requires_grad=True)
def work():
    y = x
    for up, down in weights:
        y = y + torch.nn.functional.silu(torch.nn.functional.layer_norm(y, (576,)) @ up) @ down
    y.pow(2).mean().backward()
work()
print("ready", flush=True)
sys.stdin.readline()
began = time.monotonic()
for _ in range({PASSES}):
    work()
print(time.monotonic() - began)
"""

_STEPPING = f"""
import gymnasium, selfsurf
envs = gymnasium.make_vec("{TASK}", num_envs={ENVIRONMENTS})
envs.reset(seed=0)
print("ready", flush=True)
while True:
    envs.step([{{"action": "scroll", "dy": 10}}] * {ENVIRONMENTS})
"""


def measure(names: list[str], *, rounds: int, steps: int, alone: bool = False) -> dict[str, Any]:
    """Time all workloads with each setting, in turns, and return the figures.

    Args:
        names: Names from `SETTINGS`.
        rounds: Number of rounds.
        steps: Optimizer steps of each training, at least 2; 0 to time only the network's passes.
        alone: Whether to leave out concurrent workloads.

    Raises:
        RuntimeError: A program failed.
    """
    kinds = {"alone": 1} if alone else {"alone": 1, "two at once": 2}
    seconds: dict[str, dict[str, list[float]]] = {name: {} for name in names}
    done = itertools.count(1)
    with progress("Rounds", rounds * len(names)) as update:
        for turn in range(rounds):
            for name in names if turn % 2 else names[::-1]:
                around = _around(SETTINGS[name])
                for kind, number in kinds.items():
                    seconds[name].setdefault(kind, []).append(_passes(number, around))
                if steps:
                    for kind, number in kinds.items():
                        seconds[name].setdefault(f"training {kind}", []).append(_trainings(number, steps, around))
                if steps and not alone:
                    with _stepping(around):
                        beside = _trainings(1, steps, around)
                    seconds[name].setdefault("training beside environments", []).append(beside)
                update(next(done))
    return {"passes": PASSES, "steps": steps, "cores": os.cpu_count(), "rounds": rounds, "seconds": seconds}


def medians(figures: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return the median seconds by setting and workload."""
    return {
        name: {kind: statistics.median(each) for kind, each in kinds.items()}
        for name, kinds in figures["seconds"].items()
    }


def _around(setting: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in threads.VARIABLES} | dict(setting)


def _passes(number: int, around: Mapping[str, str]) -> float:
    """Return the mean seconds of the passes when `number` programs run at once."""
    with _ended() as started:
        for _ in range(number):
            words = [sys.executable, "-c", _PASSES]
            started.append(subprocess.Popen(words, env=around, stdin=-1, stdout=-1, text=True))
        for program in started:
            _line(program)
        for program in started:
            assert program.stdin is not None
            program.stdin.write("\n")
            program.stdin.flush()
        return statistics.mean(float(program.communicate()[0]) for program in started)


def _trainings(number: int, steps: int, around: Mapping[str, str]) -> float:
    """Return the mean seconds per step when `number` trainings run at once."""
    words = ["train", TASK, "--steps", str(steps), "--json"]
    with tempfile.TemporaryDirectory() as folder, _ended() as started:
        runs = [Path(folder, str(one)) for one in range(number)]
        for run in runs:
            command = [sys.executable, "-m", "selfsurf.scripts.cli", *words, "--out", str(run)]
            started.append(subprocess.Popen(command, env=around, stdin=-3, stdout=-3, stderr=-1, text=True))
        for program in started:
            _, said = program.communicate()
            if program.returncode:
                raise RuntimeError(f"A training ended with exit code {program.returncode}: {said.strip()[-500:]}")
        return statistics.mean(_step_seconds(run) for run in runs)


def _step_seconds(run: Path) -> float:
    """Return the seconds per step of a training, without the first step."""
    text = (run / "metrics.jsonl").read_text(encoding="utf8")
    lines = [line for line in map(json.loads, text.splitlines()) if "loss" in line]
    first, last = lines[0], lines[-1]
    return float(last["seconds"]["total"] - first["seconds"]["total"]) / (last["step"] - first["step"])


@contextmanager
def _stepping(around: Mapping[str, str]) -> Iterator[None]:
    """Step environments in another process within this context."""
    began = time.monotonic()
    with _ended() as started:
        program = subprocess.Popen([sys.executable, "-c", _STEPPING], env=around, stdout=-1, text=True)
        started.append(program)
        _line(program)
        yield
        if program.poll() is not None:
            raise RuntimeError(f"The environments ended after {time.monotonic() - began:.0f} s.")


@contextmanager
def _ended() -> Iterator[list[subprocess.Popen[str]]]:
    """Yield a list of programs, and terminate those still running at the end."""
    started: list[subprocess.Popen[str]] = []
    try:
        yield started
    finally:
        for program in started:
            if program.poll() is None:
                program.terminate()
                program.communicate()


def _line(program: subprocess.Popen[str]) -> None:
    assert program.stdout is not None
    if not program.stdout.readline():
        raise RuntimeError(f"A program ended with exit code {program.wait()} before it was ready.")
