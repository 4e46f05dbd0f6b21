"""What somebody does wrong on the first day, and what is said to that."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from selfsurf.scripts.cli import app

TASK = """
from pathlib import Path
from selfsurf.browser_env import Score, Task

class Own(Task):
    goal = "Press the button."
    start_url = "http://own.test/{page}"
    sites = {{"http://own.test": Path(__file__).parent / "{site}"}}

    async def score(self, page, episode):
        return Score(0.0)

    def oracle(self, obs):
        return {{"action": "click", "id": obs["elemnts"][0]["id"]}}
"""


def selfsurf(*arguments: object) -> Result:
    return CliRunner(env={"COLUMNS": "400"}).invoke(app, list(map(str, arguments)))


def write_task(folder: Path, page: str = "index.html", site: str = "site") -> str:
    (folder / "site").mkdir()
    (folder / "site" / "index.html").write_text("<button>Go</button>")
    (folder / "own.py").write_text(TASK.format(page=page, site=site))
    return f"{folder}/own.py:Own"


def test_an_oracle_that_raises_is_named_and_not_the_agent(tmp_path):
    task = write_task(tmp_path)
    ran = selfsurf("run", "--task", task, "--agent", "oracle", "--out", tmp_path / "run")
    assert "The oracle of own.py:Own raised KeyError: 'elemnts' (own.py, line 14)" in ran.output
    assert "the agent raised" not in ran.output


@pytest.mark.slow
def test_training_stops_with_a_line_where_an_oracle_raises(tmp_path, tiny):
    task = write_task(tmp_path)
    trained = selfsurf("train", task, "--steps", 1, "--model", tiny, "--out", tmp_path / "run")
    assert trained.exit_code == 1
    assert "raised KeyError: 'elemnts' (own.py, line 14)" in trained.output
    assert "Traceback" not in trained.output


def test_pages_that_are_missing_are_named(tmp_path):
    task = write_task(tmp_path, site="sight")
    for command in (("run", "--agent", "oracle", "--task"), ("train",)):
        said = selfsurf(*command, task, "--out", tmp_path / "out")
        assert said.exit_code == 2, said.output
        assert f"own.py:Own serves http://own.test from {tmp_path}/sight, which is not a folder" in said.output


def test_a_start_page_that_is_missing_is_named(tmp_path):
    task = write_task(tmp_path, page="indx.html")
    said = selfsurf("run", "--agent", "random", "--task", task, "--out", tmp_path / "out").output
    assert f"http://own.test/indx.html: there is no such page in {tmp_path}/site" in said
    assert "env_error" in said


def test_what_is_nearly_right_is_named(tmp_path):
    (tmp_path / "runs" / "adapter").mkdir(parents=True)
    (tmp_path / "runs" / "adapter" / "adapter_config.json").write_text("{}")
    (tmp_path / "browser-automation").mkdir()
    for arguments, says in (
        (("run", "--task", "MiniWoB/click-test-v0", "--agent", "orcale"), "Did you mean oracle?"),
        (("run", "--task", "MiniWoB/click-test-v0", "--agent", "transformers", "--adapter", tmp_path / "runs"),
         f"did you mean {tmp_path}/runs/adapter?"),
        (("report", tmp_path / "browser-automation"), f"give {tmp_path}."),
        (("report", tmp_path, "--out", tmp_path), f"{tmp_path} is a folder"),
    ):  # fmt: skip
        said = selfsurf(*arguments)
        assert (said.exit_code, says in said.output) == (2, True), said.output
