import json

import pytest
import torch
import transformers
from typer.testing import CliRunner

from selfsurf.scripts.cli import app
from selfsurf.scripts.training.random_models import random_model


@pytest.mark.slow
def test_both_trainers_learn_the_same_from_the_same_rows(tiny, tmp_path):
    arguments = ["--model", str(tiny), "--rounds", "1", "--rows", "4", "--out", str(tmp_path / "out"), "--json"]
    result = CliRunner().invoke(app, ["bench", "train", *arguments])
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    ours, theirs = (figures["first_step"][name] for name in ("selfsurf", "TRL SDFTTrainer"))
    assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-3)
    assert ours["grad_norm"] == pytest.approx(theirs["grad_norm"], rel=1e-3)
    assert figures["step"]["samples"] == dict.fromkeys(figures["phases"], 3)
    for phases in figures["phases"].values():
        assert set(phases) == {"batch", "teacher", "student", "backward", "optimizer", "loss"}
        assert min(phases[name] for name in ("teacher", "student", "backward", "optimizer")) > 0
    assert figures["step"]["ratios"]["TRL SDFTTrainer"]["target"] == 2.0
    prompt = figures["tokens"]["prompt"]
    assert prompt["packed"] < prompt["mean"] + figures["tokens"]["completion"] <= prompt["padded"]
    assert json.loads((tmp_path / "out" / "train.json").read_text())["rows"] == figures["rows"] == 4


def test_a_random_model_that_could_not_be_saved_is_not_there(model_folder, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(transformers.LlamaForCausalLM, "save_pretrained", full)
        with pytest.raises(OSError, match="No space"):
            random_model("tiny", tmp_path / "tiny", model_folder)
    assert not (tmp_path / "tiny").exists()
    made = random_model("tiny", tmp_path / "tiny", model_folder)
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {path.name for path in made.iterdir()}


@pytest.mark.slow
def test_a_random_model_is_timed_whole_and_in_four_bits(tmp_path):
    options = ["--size", "tiny", "--rows", "3", "--rounds", "1", "--out", str(tmp_path), "--json"]
    result = CliRunner().invoke(app, ["bench", "gpu", *options])
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    assert figures["card"] == ("CPU (no GPU)" if not torch.cuda.is_available() else torch.cuda.get_device_name())
    assert [*figures["runs"]] == ["bf16", "nf4"]
    for run in figures["runs"].values():
        assert run["step"]["ratios"]["TRL SDFTTrainer"]["ratio"] > 0
        assert bool(run["peak_gb"]) is torch.cuda.is_available()
    assert json.loads((tmp_path / "gpu.json").read_text())["runs"].keys() == figures["runs"].keys()
