"""The demonstration, small: the real model on real pages, cut off and gone on with."""

import json

import pytest
from typer.testing import CliRunner

from selfsurf.scripts.cli import app

SMALL = ["--seeds", "1", "--steps", "2", "--json"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_demo_from_end_to_end_and_again(tmp_path):
    out = tmp_path / "demo"
    result = CliRunner().invoke(app, ["demo", "--out", str(out), *SMALL])
    assert result.exit_code == 0, result.output
    report = json.loads((out / "report.json").read_text())
    assert list(report["arms"]) == ["base, free", "base, constrained", "base, shown the answer", "trained"]
    assert set(report["arms"]["trained"]["tasks"]) >= set(report["settings"]["training"]["tasks"])
    assert report["perplexity"]["tokens"] > 2000
    assert (out / "learning_curve.png").read_bytes()[:4] == b"\x89PNG"
    assert (out / "training" / "adapter" / "adapter_model.safetensors").exists()
    episodes = sorted((out / "episodes" / "trained").iterdir())
    shown = CliRunner().invoke(app, ["view", str(episodes[0])])
    assert shown.exit_code == 0
    assert "step 0" in shown.output
    # A run without its report is one that was cut off: it goes on, and nothing that was done is done again.
    (out / "report.json").unlink()
    (out / "stages" / "trained.json").unlink()
    again = CliRunner().invoke(app, ["demo", "--out", str(out), *SMALL])
    assert again.exit_code == 0, again.output
    second = json.loads((out / "report.json").read_text())
    assert second["training"] == report["training"]
    assert second["arms"]["trained"]["tasks"] == report["arms"]["trained"]["tasks"]


def test_a_folder_with_something_else_is_refused(tmp_path):
    (tmp_path / "precious.txt").write_text("x")
    result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path), *SMALL])
    assert result.exit_code != 0
    assert (tmp_path / "precious.txt").read_text() == "x"


def test_a_finished_run_is_kept(tmp_path):
    from selfsurf.scripts.learning.demonstration import default_settings, prepare_folder

    settings = default_settings("smollm2", 0)
    out = prepare_folder(settings, tmp_path / "demo")
    (out / "report.json").write_text("{}")
    assert prepare_folder(settings, tmp_path / "demo") == tmp_path / "demo"
    (kept,) = [path for path in tmp_path.iterdir() if path.name != "demo"]
    assert (kept / "report.json").exists()
    assert not (tmp_path / "demo" / "report.json").exists()
