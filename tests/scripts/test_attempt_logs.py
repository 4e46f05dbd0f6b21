"""`CLAW_LOG_DIR`: every command that plays episodes logs their attempts under the episode's id."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from selfsurf.agents import OracleAgent
from selfsurf.agents.play import Job
from selfsurf.scripts.cli import app
from selfsurf.sdft.rollouts.local import Rollouts
from tests.processes import until

TASK = "MiniWoB/click-test-v0"


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CLAW_LOG_DIR", str(tmp_path / "logs"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "logs" / "browser-automation"


def summaries(logs: Path, number: int) -> dict[str, dict[str, Any]]:
    """The summaries of so many runs, by their ids."""
    assert until(lambda: len([*logs.glob("*/*/summary.json")]) == number, 20)
    return {path.parent.name: json.loads(path.read_text()) for path in logs.glob("*/*/summary.json")}


def traces(folder: Path) -> dict[str, str]:
    """The outcomes of episodes by the ids of their logs."""
    metas = [json.loads(path.read_text()) for path in folder.rglob("episode.json")]
    return {meta["traceId"]: meta["outcome"] for meta in metas}


def selfsurf(*words: str) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == 0, result.output
    return result.stdout


def test_bench_run_logs_each_episode_by_itself(logs: Path, tmp_path: Path) -> None:
    suite = ("bench", "run", "miniwob", "--task", "click-test", "--agent", "oracle", "--seeds", "2", "--workers", "1")
    selfsurf(*suite, "--out", str(tmp_path / "bench"), "--json")
    found = summaries(logs, 2)
    assert {id: one["decision"] for id, one in found.items()} == traces(tmp_path / "bench")
    assert [(one["attempts"], one["successes"]) for one in found.values()] == [(1, 1)] * 2


def test_rollouts_and_a_replay_log_theirs(logs: Path, tmp_path: Path) -> None:
    with Rollouts(1) as rollouts:
        rollouts.run(OracleAgent(), [Job(TASK, 0), Job(TASK, 1)], folder=tmp_path / "rollouts")
    found = summaries(logs, 2)
    assert {id: one["decision"] for id, one in found.items()} == traces(tmp_path / "rollouts")
    episode = next((tmp_path / "rollouts").iterdir())
    selfsurf("record", "--replay", str(episode), "--json")
    assert [one["decision"] for id, one in summaries(logs, 3).items() if id not in found] == ["solved"]


def test_a_shell_logs_each_goal(logs: Path, tmp_path: Path) -> None:
    (tmp_path / "clerk.py").write_text(
        "class Clerk:\n    def act(self, obs):\n"
        "        return {'finish': 'done'} if obs['last_action'] else {'action': 'click', 'id': 1}\n"
    )
    page = "data:text/html,<button>Next</button>"
    shell = [sys.executable, "-m", "selfsurf.scripts.cli", "shell", "--agent", "clerk.py:Clerk", "--url", page]
    subprocess.run(
        [*shell, "--session", "session"], input="Go on.\nGo on.\n", text=True, check=True, timeout=100, cwd=tmp_path
    )
    found = summaries(logs, 2)
    assert set(traces(tmp_path / "session").values()) == {"stopped"}
    assert {id: one["decision"] for id, one in found.items()} == dict.fromkeys(traces(tmp_path / "session"), "done")
    assert [one["attempts"] for one in found.values()] == [1, 1]
