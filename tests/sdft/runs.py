"""Training runs as commands of their own, and whether two of them left the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from selfsurf.agents.adapters.identity import read_about
from selfsurf.sdft.run.checkpoint_files import last_step

ROOT = Path(__file__).parents[2]
WEIGHTS = "adapter_model.safetensors"


def lines_of(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def command(settings, run, *before):
    changed = settings.model_dump(mode="json", exclude={"tasks", "model", "steps", "seed"}, exclude_defaults=True)
    more = [part for name, value in changed.items() for part in ("--set", f"{name}={json.dumps(value)}")]
    start = [sys.executable, *before] if before else [sys.executable, "-m", "selfsurf.scripts.cli"]
    return [*start, "train", *settings.tasks, "--model", settings.model, "--steps", str(settings.steps),
            "--out", str(run), "--resume", *more]  # fmt: skip


def start(settings, run, *before, **options):
    return subprocess.Popen(
        command(settings, run, *before), cwd=ROOT, env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options,
    )  # fmt: skip


def same_run(one, other):
    """Do two runs leave the same, byte for byte, and say the same of themselves but for times and memory?"""
    last = f"checkpoints/checkpoint-{last_step(one)}"
    for part in (f"adapter/{WEIGHTS}", *(f"{last}/{name}" for name in (WEIGHTS, f"teacher/{WEIGHTS}", "optimizer.pt"))):
        assert (one / part).read_bytes() == (other / part).read_bytes(), part

    def plain(line):
        costs = ("second", "memory")
        return {name: value for name, value in line.items() if not any(cost in name for cost in costs)}

    assert [plain(line) for line in lines_of(one)] == [plain(line) for line in lines_of(other)]
    about = [read_about(run / "adapter") for run in (one, other)]
    assert about[0].get("evaluation") == about[1].get("evaluation")
