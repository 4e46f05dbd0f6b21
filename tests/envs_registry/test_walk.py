"""docs/walk.md as it stands: its files, its commands, and a small model that does better on seeds it never saw."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

DOC = (Path(__file__).parents[2] / "docs" / "walk.md").read_text(encoding="utf8")
FILES = re.findall(r"^`(\S+)`\n\n```\w+\n(.*?)```", DOC, re.DOTALL | re.MULTILINE)
COMMANDS = [line for block in re.findall(r"```bash\n(.*?)```", DOC, re.DOTALL) for line in block.splitlines()]
LEARNING = next(number for number, line in enumerate(COMMANDS) if "--agent transformers" in line)


@pytest.fixture
def walk(tmp_path):
    """Runs commands of the page, in a folder with its files."""
    for name, text in FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf8")

    def run(commands, timeout):
        for line in commands:
            program, *words = shlex.split(line)
            assert program == "selfsurf"
            command = [sys.executable, "-m", "selfsurf.scripts.cli", *words]
            done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=timeout)
            assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        return tmp_path / "runs"

    return run


def success(folder):
    """The share of solved episodes by task."""
    lines = map(json.loads, (folder / "results.jsonl").read_text().splitlines())
    solved: dict[str, list[bool]] = {}
    for line in lines:
        solved.setdefault(line["task"].removeprefix("notes.py:"), []).append(line["outcome"] == "solved")
    return {task: sum(flags) / len(flags) for task, flags in solved.items()}


@pytest.mark.slow
def test_the_tasks_can_be_done_and_the_rules_do_what_they_can(walk):
    runs = walk(COMMANDS[:LEARNING], 60)
    assert success(runs / "oracle") == {"Add": 1.0, "Delete": 1.0, "Delete?notes=5": 1.0}
    assert success(runs / "rule") == {"Add": 0.0, "Delete": 1.0, "Delete?notes=5": 1.0}
    assert json.loads((runs / "add" / "episode.json").read_text())["outcome"] == "solved"


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_training_pays_on_seeds_that_it_never_saw(walk):
    walk([COMMANDS[0]], 60)
    runs = walk(COMMANDS[LEARNING:], 1200)
    before, after = success(runs / "before"), success(runs / "after")
    assert after["Delete"] >= before["Delete"] + 0.5, (before, after)
