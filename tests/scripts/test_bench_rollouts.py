"""`selfsurf bench rollouts`: the calculation from given figures, and what counts as hidden."""

import json

import pytest
from typer.testing import CliRunner

from selfsurf.scripts.bench import app
from selfsurf.scripts.rollouts.speed import hidden

FIGURES = {
    "steps": 2, "env_seconds": 0.1, "cpu_seconds": 0.04, "policy_seconds": 0.3, "policy_rows": 50, "driver_seconds": 0.01,
    "worker_mb": 300, "context_mb": 20, "policy_mb": 1000, "call_bytes": 10000, "result_bytes": 100000,
    "weight_bytes": 20000000,
}  # fmt: skip


def test_growth_is_calculated_from_the_figures_of_a_file(tmp_path):
    path = tmp_path / "figures.json"
    path.write_text(json.dumps({"figures": FIGURES}))
    words = ["rollouts", "--scale", "1000", "--figures", str(path), "--set", "driver_seconds=0.001", "--json"]
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 0, found.output
    points = json.loads(found.stdout)
    assert [point["browsers"] for point in points][-1] == 1000
    assert points[-1]["saturated"] == "the process that collects results"
    assert points[-1]["steps_per_second"] == 2000
    assert points[0]["steps_per_second"] == 20
    shown = CliRunner().invoke(app, words[:-1])
    assert "Calculated, not run" in shown.stdout


def test_missing_figures_are_named():
    found = CliRunner().invoke(app, ["rollouts", "--scale", "10", "--set", "steps=2"])
    assert found.exit_code == 2
    assert "cpu_seconds" in found.output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--figures", "{folder}/missing.json"], "missing.json can't be read: No such file or directory."),
        (["--figures", "{folder}"], "can't be read: Is a directory."),
        (["--figures", "{folder}/none.json"], "none.json is not the output of `bench rollouts --json`"),
        (["--figures", "{folder}/list.json"], "list.json is not the output of `bench rollouts --json`"),
        (["--set", "steps=many"], "--set steps: 'many' is not a number"),
    ],
)
def test_figures_that_can_not_be_are_refused(tmp_path, arguments, says):
    (tmp_path / "none.json").write_text("none")
    (tmp_path / "list.json").write_text("[]")
    words = [one.format(folder=tmp_path) for one in arguments]
    found = CliRunner(env={"COLUMNS": "400"}).invoke(app, ["rollouts", "--scale", "10", *words])
    assert (found.exit_code, says in found.output) == (2, True), found.output
    found = CliRunner(env={"COLUMNS": "400"}).invoke(app, ["rollouts", *words])
    assert (found.exit_code, "only with --scale" in found.output) == (2, True), found.output


def test_hidden_is_what_went_on_beside_the_shorter():
    def line(generation, waited, learned):
        return {"rollouts/seconds": generation, "rollouts/waited_seconds": waited, "seconds": {"learn": learned}}

    in_turns = [line(2, 2, 4), line(2, 2, 8), line(2, 2, 12)]
    assert hidden(in_turns)["hidden"] == 0
    shorter_generation = [line(2, 2, 4), line(3, 0, 8), line(3, 0, 12)]
    assert hidden(shorter_generation) == {
        "generation_seconds": 3, "training_seconds": 4, "trainer_idle_seconds": 0, "step_seconds": 4, "hidden": 1,
    }  # fmt: skip
    longer_generation = [line(2, 2, 4), line(10, 7, 8), line(10, 7, 12)]  # 3 of 4 seconds of training
    assert hidden(longer_generation)["hidden"] == pytest.approx(0.75)
