"""`selfsurf adapters` on a tiny model and a random adapter of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from selfsurf import agents
from selfsurf.agents.adapters.tensors import DamagedFile
from selfsurf.scripts.cli import app
from tests.models.adapters import save_random_adapter
from tests.models.parity import save_llama


@pytest.fixture
def base(saved: Any) -> Path:
    folder: Path = saved(save_llama)
    return folder


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(app, ["adapters", *map(str, arguments)])


def test_an_adapter_is_shown_converted_and_verified(base: Path, tmp_path: Path) -> None:
    pytest.importorskip("mlx_lm")
    adapter = save_random_adapter(base, tmp_path / "adapter", r=20)
    shown = run("show", adapter, "--base", base)
    assert shown.exit_code == 0
    assert "start the server with --max-lora-rank 32" in shown.stdout
    assert "can be served" in shown.stdout  # by TensorRT-LLM, whose limit is higher
    done = run("convert", adapter, tmp_path / "mlx", "--to", "mlx", "--base", base, "--verify", "--json")
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    assert facts["verified"]["difference"] < 1e-4 < 1.0 < facts["verified"]["moved"]
    assert json.loads(run("show", tmp_path / "mlx", "--json").stdout)["format"] == "mlx"
    back = run("convert", tmp_path / "mlx", tmp_path / "back", "--to", "peft", "--base", base)
    assert back.stdout.strip() == str(tmp_path / "back")


def test_the_prompt_of_an_adapter_is_shown(base: Path, tmp_path: Path) -> None:
    adapter = save_random_adapter(base, tmp_path / "adapter")
    assert "prompt                   not known" in run("show", adapter).stdout
    prompt = {"actions": ["click"], "max_prompt_tokens": 512, "prefill": '{"'}
    (adapter / "selfsurf.json").write_text(json.dumps({"prompt": prompt}))
    shown = run("show", adapter).stdout
    assert 'prompt.actions           ["click"]\n' in shown
    assert "prompt.max_prompt_tokens 512\n" in shown
    facts = json.loads(run("show", adapter, "--json").stdout)
    assert facts["prompt"].items() >= prompt.items()


def test_what_is_refused_is_said_in_one_line(base: Path, tmp_path: Path) -> None:
    adapter = save_random_adapter(base, tmp_path / "adapter")
    (adapter / "selfsurf.json").write_text(json.dumps({"base_model": "another", "base_model_sha256": "0" * 64}))
    refused = run("show", adapter, "--base", base)
    assert refused.exit_code == 1
    assert refused.stderr.count("\n") == 1
    assert "belongs to the base model another" in refused.stderr
    assert run("show", tmp_path).exit_code == 1


def test_damaged_weights_and_a_format_that_is_there_already_are_said_in_one_line(base: Path, tmp_path: Path) -> None:
    adapter = save_random_adapter(base, tmp_path / "adapter")
    same = run("convert", adapter, tmp_path / "out", "--to", "peft", "--base", base)
    assert (same.exit_code, same.stderr) == (1, f"The adapter at {adapter} is already in PEFT's format.\n")
    weights = adapter / "adapter_model.safetensors"
    whole = weights.read_bytes()
    for cut in (whole[:-100], whole[:100], whole[:5], b""):
        weights.write_bytes(cut)
        for command in (
            ["show", adapter, "--base", base],
            ["convert", adapter, tmp_path / "out", "--to", "mlx", "--base", base],
        ):
            result = run(*command)
            assert result.exit_code == 1
            assert isinstance(result.exception, SystemExit)
            assert result.stderr.count("\n") == 1
            assert f"{weights} is cut off" in result.stderr
    with pytest.raises(DamagedFile, match="is cut off"):
        agents.make("transformers", model="/no/model", adapter=adapter)
    header = b'{"x": {"dtype": "F32"}}'
    weights.write_bytes(len(header).to_bytes(8, "little") + header)
    assert "is not a safetensors file" in run("show", adapter).stderr
