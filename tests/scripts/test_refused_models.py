"""What can't be had ends each command with 2 before anything begins: other kinds of adapters, models out of reach."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from typer.testing import CliRunner

from selfsurf import agents
from selfsurf.agents.adapters.base import folder_dtype
from selfsurf.agents.adapters.identity import AdapterError, check_peft
from selfsurf.agents.model_files import ModelError
from selfsurf.browser_env.arguments import OptionError
from selfsurf.scripts.cli import app
from selfsurf.scripts.terminal.arguments import settings_of
from selfsurf.sdft.settings import TrainSettings
from tests.agents.policy_server import replying, serve_raw
from tests.models.parity import save_llama

TASK = "MiniWoB/click-test-v0"
NOBODY = "http://127.0.0.1:9"
RUN, BENCH, TRAIN = ["run", "--task", TASK], ["bench", "run", "miniwob", "--seeds", "1"], ["train", TASK]
BY_TRANSFORMERS, BY_MLX, BY_OPENAI = ["--agent", "transformers"], ["--agent", "mlx"], ["--agent", "openai"]


@pytest.fixture
def of_mlx(tmp_path: Path) -> Path:
    """An adapter in MLX's format."""
    folder = tmp_path / "of-mlx"
    folder.mkdir()
    settings = {"rank": 1, "scale": 2.0, "dropout": 0.0, "keys": ["a"]}
    (folder / "adapter_config.json").write_text(json.dumps({"fine_tune_type": "lora", "lora_parameters": settings}))
    save_file({"a.lora_a": np.zeros((2, 1), np.float32)}, folder / "adapters.safetensors")
    return folder


def refused(arguments: list[str], out: Path) -> str:
    """Run a command that must end with 2 and leave nothing; returns what it says, in one line."""
    result = CliRunner().invoke(app, [*arguments, "--out", str(out)])
    assert result.exit_code == 2, result.output
    assert not out.exists()
    return " ".join(result.output.replace("│", " ").split())


@pytest.mark.parametrize("command", [[*RUN, *BY_TRANSFORMERS, "--adapter"], [*BENCH, *BY_TRANSFORMERS, "--adapter"],
                                     [*TRAIN, "--set"]], ids=["run", "bench", "train"])  # fmt: skip
def test_an_adapter_of_mlx_is_refused_with_how_to_convert_it(command: list[str], of_mlx: Path, tmp_path: Path) -> None:
    given = f"start_from={of_mlx}" if command[-1] == "--set" else str(of_mlx)
    said = refused([*command, given], tmp_path / "out")
    assert "is in MLX's format, but PEFT's format is needed" in said
    assert "selfsurf adapters convert" in said
    assert "--to peft --base" in said


def test_an_adapter_without_weights_or_of_no_kind_is_named(of_mlx: Path) -> None:
    (of_mlx / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA"}))
    with pytest.raises(FileNotFoundError, match=r"no adapter_model\.safetensors"):
        check_peft(of_mlx)
    (of_mlx / "adapter_config.json").write_text("{}")
    with pytest.raises(AdapterError, match="has no peft_type"):
        agents.make("transformers", model="/no/model", adapter=of_mlx)


@pytest.fixture
def no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody answers at the hub's address."""
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", NOBODY)


@pytest.mark.usefixtures("no_hub")
@pytest.mark.parametrize("command", [[*RUN, *BY_TRANSFORMERS], [*RUN, *BY_MLX], [*BENCH, *BY_TRANSFORMERS], TRAIN],
                         ids=["run", "mlx", "bench", "train"])  # fmt: skip
def test_a_model_that_the_hub_can_not_give_is_refused(command: list[str], tmp_path: Path) -> None:
    said = refused([*command, "--model", "no-one/nothing"], tmp_path / "out")
    assert "no-one/nothing is not on this machine and could not be downloaded from the hub (ConnectError: " in said


@pytest.mark.usefixtures("no_hub")
def test_from_python_too_it_is_refused_at_once_and_quietly(caplog: pytest.LogCaptureFixture) -> None:
    start = time.monotonic()
    with pytest.raises(ModelError, match="could not be downloaded from the hub"):
        agents.make("transformers", model="no-one/nothing")
    assert time.monotonic() - start < 10
    assert "Retrying" not in caplog.text


@pytest.mark.parametrize("command", [RUN, BENCH], ids=["run", "bench"])
def test_a_server_that_does_not_answer_is_named_at_once(command: list[str], tmp_path: Path) -> None:
    said = refused([*command, *BY_OPENAI, "--model", "m", "--set", f"base_url={NOBODY}/v1"], tmp_path / "out")
    assert f"No connection to {NOBODY}/v1 (ConnectError" in said


def test_a_model_that_vllm_does_not_serve_is_named(tmp_path: Path) -> None:
    with serve_raw(replying([], '{"click":1}'), models=["base", "links"]) as url:
        at = [*RUN, *BY_OPENAI, "--set", f"base_url={url}", "--set", "endpoint=vllm"]
        said = refused([*at, "--model", "bas"], tmp_path / "out")
        assert f"{url} has no model 'bas'; it has base, links." in said
        assert "has no model 'lins'" in refused([*at, "--model", "base", "--adapter", "lins"], tmp_path / "out")
        agent = agents.make("openai", model="base", adapter="links", base_url=url, endpoint="vllm")
        agent.policy.check()  # type: ignore[attr-defined]
        agent.policy.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("command", [[*RUN, *BY_TRANSFORMERS, "--adapter"], [*BENCH, *BY_TRANSFORMERS, "--adapter"],
                                     [*BENCH, *BY_MLX, "--adapter"], [*TRAIN, "--set"]],
                         ids=["run", "bench", "mlx", "train"])  # fmt: skip
def test_an_adapter_of_another_base_is_refused_with_both_named(
    command: list[str], saved: Callable[..., Path], tmp_path: Path
) -> None:
    (adapter := tmp_path / "adapter").mkdir()
    (adapter / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA"}))
    save_file({"a": np.zeros(1, np.float32)}, adapter / "adapter_model.safetensors")
    model = saved(save_llama)
    about = {"base_model": "my-other-base", "base_model_sha256": "0" * 64, "base_model_dtype": folder_dtype(model)}
    (adapter / "selfsurf.json").write_text(json.dumps(about))
    given = f"start_from={adapter}" if command[-1] == "--set" else str(adapter)
    said = refused([*command, given, "--model", str(model)], tmp_path / "out")
    assert "belongs to the base model my-other-base" in said
    assert f"can't be used on {model}" in said.replace("- ", "-")


RULES = """
from dataclasses import dataclass

@dataclass
class Rule:
    '''Clicks the first element of a role.'''
    role: str = "button"
    calls: int = 0

    def act(self, obs):
        return {"action": "click", "id": next(e["id"] for e in obs["elements"] if e["role"] == self.role)}

class Idle:
    pass
"""
PLAIN = """
class Plain:
    def __init__(self, role: str = "button", size: int | None = None):
        assert role in ("5", "button")
    def act(self, obs):
        return {"action": "click", "id": 1}

class Bare:
    def act(self, obs):
        return {"action": "click", "id": 1}
"""


@pytest.mark.slow
def test_a_number_is_a_text_where_only_that_can_be(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text(PLAIN)
    words = ["run", "--task", TASK, "--agent", f"{tmp_path}/plain.py:Plain", "--max-steps", "1"]
    result = CliRunner().invoke(app, [*words, "--set", "role=5", "--out", str(tmp_path / "out"), "--json"])
    assert result.exit_code == 0, result.output
    assert 'size="x": should be a valid integer, or null' in refused([*words, "--set", "size=x"], tmp_path / "no")
    said = CliRunner().invoke(app, ["train", TASK, "--set", "instructions=5", "--set", "steps=5"])
    assert "give --steps instead" in said.output
    found = settings_of(TrainSettings, {"tasks": [TASK], "instructions": 5}, ["instructions=5"])
    assert found.instructions == "5"


def test_an_agent_without_options_says_so(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text(PLAIN)
    agent = f"{tmp_path}/plain.py:Bare"
    for command in (["run"], ["bench", "run"]):
        for name in (agent, "oracle"):
            result = CliRunner().invoke(app, [*command, "--agent", name, "--settings"])
            assert (result.exit_code, result.output) == (0, f"The agent {name} has no options.\n")


def test_a_users_own_agent_runs_as_it_does_in_a_benchmark(tmp_path: Path) -> None:
    rules = tmp_path / "rule.py"
    rules.write_text(RULES)
    out = tmp_path / "out"
    for given, says in (
        ([f"{rules}:Rule", "--set", "colour=red"], "has no option colour; it has role, calls."),
        ([str(rules)], "or give file.py:Class or module:Class of an agent or a policy."),
        ([f"{rules}:Rule", "--set", "calls=few"], 'calls="few": should be a valid integer'),
        ([f"{rules}:Idle"], "is neither an agent with act(obs) or act_batch(observations), nor a policy"),
        ([f"{rules}:Idle"], "with complete. Its file has Rule."),
        ([f"{rules}:None_such"], "has no class 'None_such'; it has Rule."),
    ):
        assert says in refused([*RUN, "--agent", *given], out)
    result = CliRunner().invoke(
        app, [*RUN, "--backend", f"{rules}:Rule", "--set", "role=button", "--out", str(out), "--json"]
    )
    assert (result.exit_code, json.loads(result.stdout)["outcome"]) == (0, "solved")
    with pytest.raises(OptionError, match='calls="few"'):
        agents.make(f"{rules}:Rule", calls="few")
    assert agents.make(f"{rules}:Rule", role="link").role == "link"  # type: ignore[attr-defined]
