"""Results folders with known truth, for the tests of what reads them."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from selfsurf.browser_env.observe.screenshot import encode_png


def line(task: str, seed: int, outcome: str = "solved", **changes: Any) -> dict[str, Any]:
    """An episode as the runner writes it down."""
    raw = 1.0 if outcome == "solved" else -1.0
    return {
        "task": task, "seed": seed, "outcome": outcome, "outcome_detail": "", "reward": max(raw, 0.0),
        "raw_reward": raw, "time_reward": 0.8 if outcome == "solved" else -1.0, "steps": 3, "prompt_tokens": 900,
        "completion_tokens": 30, "cost": None, "seconds": 2.0, "agent_seconds": 1.5, "env_seconds": 0.4, "attempts": 1,
        "last_error": "", "reason": "", "answer": "", "episode": None, "screenshot": None, "curve": None, **changes,
    }  # fmt: skip


def run(tasks: dict[str, tuple[str, list[str]]], seeds: list[int], **changes: Any) -> dict[str, Any]:
    """What `run.json` holds."""
    agent = {
        "name": "random", "backend": "random", "model": None, "adapter": None, "model_sha256": None,
        "adapter_sha256": None, "options": {},
    }  # fmt: skip
    return {
        "format": 1, "suite": "miniwob", "agent": agent,
        "tasks": [{"id": task, "split": split, "groups": groups} for task, (split, groups) in tasks.items()],
        "seeds": seeds, "max_steps": 10, "retries": 2, "versions": {"selfsurf": "0.1.0", "chromium": "156.0"},
        "git": {"revision": "0123456789abcdef", "dirty": False}, "command": ["selfsurf", "bench", "run", "miniwob"],
        "started": "2026-05-04T10:00:00+00:00", "host": {"cpus": 2}, **changes,
    }  # fmt: skip


def write(folder: Path, head: dict[str, Any], lines: list[dict[str, Any]]) -> Path:
    """Write a results folder as it is given."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps(head))
    (folder / "results.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    return folder


def picture(folder: Path, name: str, shade: int, size: tuple[int, int] = (214, 332)) -> str:
    """Save a picture in a results folder and return its relative path."""
    image = np.full((*size, 3), shade, dtype=np.uint8)
    image[::16] = 255 - shade
    path = folder / "episodes" / name / "last.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode_png(image))
    return str(path.relative_to(folder))
