"""Several processes: accelerate's configuration files, and a run on two processes of this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils import DeepSpeedPlugin, FullyShardedDataParallelPlugin
from accelerate.utils.launch import prepare_deepspeed_cmd_env, prepare_multi_gpu_env

from selfsurf.sdft import train
from selfsurf.sdft.processes import check_sharding, share
from selfsurf.sdft.rollouts.layout import RolloutSettings
from selfsurf.sdft.run.checkpoint_files import steps_saved
from selfsurf.sdft.settings import GRPOSettings, TrainSettings
from selfsurf.sdft.trainers.grpo import train_grpo
from selfsurf.sdft.trainers.sft import train_sft
from selfsurf.sdft.trainers.verifier import train_verifier

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "docs" / "cluster"


def launched(name: str) -> Any:
    """What `accelerate launch --config_file` makes of a file."""
    given = ["--config_file", str(CONFIGS / name), "-m", "selfsurf.scripts.cli", "train"]
    return _validate_launch_command(launch_command_parser().parse_args(given))[0]


def test_the_file_for_whole_copies() -> None:
    args = launched("gpus.yaml")
    assert (args.multi_gpu, args.use_deepspeed, args.use_fsdp, args.num_processes) == (True, False, False, 2)
    assert prepare_multi_gpu_env(args)["ACCELERATE_MIXED_PRECISION"] == "no"


def test_the_file_for_zero_2(monkeypatch: pytest.MonkeyPatch) -> None:
    args = launched("zero2.yaml")
    assert args.use_deepspeed
    args.deepspeed_fields_from_accelerate_config = ""
    for key, value in prepare_deepspeed_cmd_env(args)[1].items():
        monkeypatch.setenv(key, value)
    plugin = DeepSpeedPlugin()
    assert plugin.zero_stage == 2
    check_sharding(plugin, None)


def test_the_file_for_fsdp(monkeypatch: pytest.MonkeyPatch) -> None:
    args = launched("fsdp2.yaml")
    assert args.use_fsdp
    for key, value in prepare_multi_gpu_env(args).items():
        monkeypatch.setenv(key, value)
    plugin = FullyShardedDataParallelPlugin()
    assert plugin.fsdp_version == 2
    assert plugin.reshard_after_forward is True
    assert str(plugin.state_dict_type).endswith("FULL_STATE_DICT")
    check_sharding(None, plugin)


def test_settings_are_shared_out_evenly_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert share(10, "max_rows") == 10
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert share(10, "max_rows") == 5
    with pytest.raises(ValueError, match="max_rows is 5, but must be a multiple of the number of processes"):
        share(5, "max_rows")


@pytest.mark.parametrize("way", ["sft", "verifier", "grpo", "workers"])
def test_what_several_processes_would_each_do_by_themselves_is_refused(
    way: str, settings: TrainSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    trainings: dict[str, Callable[[], object]] = {
        "sft": lambda: train_sft(settings, tmp_path),
        "grpo": lambda: train_grpo(GRPOSettings(tasks=settings.tasks, episodes_per_step=4, group_size=2), tmp_path),
        "verifier": lambda: train_verifier(TrainSettings(episodes=("there",)), tmp_path),
        "workers": lambda: train(settings.model_copy(update={"rollouts": RolloutSettings(workers=1)}), tmp_path),
    }
    with pytest.raises(ValueError, match="works in one process only: train without `accelerate launch`"):
        trainings[way]()


def both(script: str, out: Path, *more: str) -> list[Any]:
    """Run a script of this folder in two processes, as accelerate launches it, and return what each left."""
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
        "OMP_NUM_THREADS": "1",
        "TRL_EXPERIMENTAL_SILENCE": "1",
    }
    command = [
        sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--num_machines",
        "1", "--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0",
        str(Path(__file__).parent / script), str(out), *more,
    ]  # fmt: skip
    done = subprocess.run(command, env=environment, cwd=out, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return [torch.load(out / f"left_{rank}.pt", weights_only=True) for rank in (0, 1)]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_two_processes_share_the_episodes_and_end_with_one_adapter(tmp_path: Path) -> None:
    first, second = both("two_processes.py", tmp_path)
    steps = range(len(first["jobs"]))
    assert len(steps) == 3
    for step in steps:
        own, other = ([tuple(job) for job in left["jobs"][step]] for left in (first, second))
        assert len(own) == len(other) == 2
        assert not set(own) & set(other)
    everything = [tuple(job) for left in (first, second) for jobs in left["jobs"] for job in jobs]
    assert sorted(everything) == sorted(map(tuple, first["all_jobs"]))
    assert first["adapter"].keys() == second["adapter"].keys()
    for name, value in first["adapter"].items():
        assert torch.equal(value, second["adapter"][name]), name
    assert any(value.abs().max() > 0 for name, value in first["adapter"].items() if "lora_B.default" in name)
    assert (first["wrote"], second["wrote"]) == (True, False)
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2, 3]
    assert (tmp_path / "run/adapter/adapter_model.safetensors").exists()
    # The second process had nothing to learn from in the second step, and the run went on.
    assert second["rows"][1] == 0
    assert first["rows"][1] > 0


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_interrupt_of_one_process_ends_both_after_the_same_step(tmp_path: Path) -> None:
    first, second = both("two_processes.py", tmp_path, "interrupted")
    assert (len(first["rows"]), len(second["rows"])) == (1, 1)
    assert steps_saved(tmp_path / "run/checkpoints") == [1]
    assert not (tmp_path / "run/adapter").exists()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_split_model_is_whole_while_it_samples(tmp_path: Path) -> None:
    """On processors: what accelerate makes of `fsdp2.yaml` needs GPUs, but the parts are those of torch."""
    first, second = both("split_model.py", tmp_path)
    assert (len(first["read"]), len(second["read"])) == (2, 8)
    assert torch.allclose(first["read"][0], first["expected"], atol=1e-5)
    assert torch.allclose(second["read"][3], first["expected"], atol=1e-5)
    assert torch.allclose(second["read"][4], first["read"][1], atol=1e-5)
    assert not torch.allclose(first["read"][1], first["expected"], atol=1e-3)
    for name, value in first["adapter"].items():
        assert torch.equal(value, second["adapter"][name]), name
    assert len(first["kept"]) == len(first["adapter"]) / 2
    for name, value in first["kept"].items():
        assert torch.equal(value, first["adapter"][name.replace(".weight", ".default.weight")]), name
    b_of = {side: [v for n, v in first["adapter"].items() if f"lora_B.{side}" in n] for side in ("default", "teacher")}
    assert all(value.abs().max() > 0 for values in b_of.values() for value in values)
