"""`selfsurf bench loop`: failures, what worked later, training, and other seeds."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from selfsurf.browser_env.record.episode import Episode
from selfsurf.scripts.cli import app
from selfsurf.scripts.learning.loop import _play, _solved
from selfsurf.scripts.learning.stages import MeasureError, Stages
from selfsurf.sdft.rollouts import Rollouts

SMALL = ["steps=1", "recorded_rows=2", "max_rows=2", "lora_rank=4", "evaluate_every=0", "max_perplexity_rise=1e9"]


@pytest.mark.slow
def test_one_turn_of_the_loop(tiny: Path, tmp_path: Path) -> None:
    options = [f"--set={one}" for one in SMALL]
    command = ["bench", "loop", "--scenario", "cookies", "--model", str(tiny), "--out", str(tmp_path), "--json"]
    first = CliRunner().invoke(app, [*command, "--runs", "2", "--tries", "2", *options])
    assert first.exit_code == 1, first.output  # a random model has learned nothing from one step
    figures = json.loads(first.stdout)
    (row,) = figures["rows"]
    assert (row["scenario"], row["failed"], figures["total"]["after"][1]) == ("cookies", 2, 2)
    assert figures["low"] <= figures["gain"] <= figures["high"]

    def seeds(folder: str) -> set[int]:
        return {Episode(path.parent).meta["seed"] for path in (tmp_path / folder).rglob("episode.json")}

    assert seeds("runs") == seeds("later"), "what failed was done right later"
    assert seeds("before") == seeds("after")
    assert not seeds("after") & seeds("runs"), "the loop has not seen them"
    again = CliRunner().invoke(app, [*command, "--runs", "2", "--tries", "2", *options])
    assert json.loads(again.stdout) == figures, "nothing is done twice"
    other = CliRunner().invoke(app, [*command, "--runs", "2", "--tries", "3", *options])
    assert (other.exit_code, "other settings: tries (2 there)" in other.output) == (2, True)


def test_stages_of_other_settings_are_not_taken_for_these(tmp_path: Path) -> None:
    stages = Stages(tmp_path)
    stages.settle({"tries": 40, "changes": {"steps": 3}})
    stages.once("before", lambda: 12)
    Stages(tmp_path).settle({"tries": 40, "changes": {"steps": 3}})
    with pytest.raises(MeasureError, match=r"other settings: tries \(40 there\)"):
        Stages(tmp_path).settle({"tries": 20, "changes": {"steps": 3}})
    (tmp_path / "stages" / "settings.json").unlink()
    with pytest.raises(MeasureError, match="other settings"):
        Stages(tmp_path).settle({"tries": 40})


def test_what_the_infrastructure_failed_is_no_failure_of_the_agent() -> None:
    results = [Namespace(solved=solved, masked=masked, job=Namespace(env_id="a"))
               for solved, masked in ((True, False), (False, False), (False, True))]  # fmt: skip
    assert _solved(["a", "b"], results) == [(1, 2), (0, 0)]


def test_an_unknown_scenario_is_refused() -> None:
    result = CliRunner().invoke(app, ["bench", "loop", "--scenario", "cookie"])
    assert (result.exit_code, "cookies" in result.output) == (2, True)


def test_a_task_in_which_only_the_infrastructure_failed_is_not_measured(tiny: Path, tmp_path: Path) -> None:
    task = "from selfsurf.browser_env import Task\n\n\nclass Broken(Task):\n    async def setup(self, page, rng):\n"
    (tmp_path / "broken.py").write_text(f"{task}        raise OSError('no disk')\n")
    wrong = r"Before: the infrastructure failed in all episodes of .*broken.py:Broken: .*no disk.* tries again"
    with Rollouts(2) as rollouts, pytest.raises(MeasureError, match=wrong):
        _play(rollouts, str(tiny), [f"{tmp_path / 'broken.py'}:Broken"], "Before", 0, 2, tmp_path / "before")
