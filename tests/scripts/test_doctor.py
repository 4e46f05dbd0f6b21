from __future__ import annotations

import json
import os
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from typer.testing import CliRunner

from selfsurf import extras
from selfsurf.scripts import cli
from selfsurf.scripts.doctor import show
from selfsurf.scripts.machine import checks as doctor
from selfsurf.scripts.machine import requirements
from selfsurf.scripts.machine.requirements import RequiredPackage


def test_reports_and_exits_with_the_verdict() -> None:
    result = CliRunner().invoke(cli.app, ["doctor", "--json"])
    checks = json.loads(result.stdout)
    failed = [check for check in checks if check["state"] == "failed"]
    assert result.exit_code == bool(failed), failed
    assert all(check["fix"] for check in checks if check["state"] != "ok")
    page = next(check for check in checks if check["group"] == "browser" and check["name"] == "page")
    assert page["state"] == "ok", page


def test_a_cache_that_cannot_be_written_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SELFSURF_HOME", str(tmp_path / "file" / "folder"))
    assert [check.state for check in doctor.storage()] == ["failed"]


def test_no_browser_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELFSURF_BROWSER", str(tmp_path / "nothing"))
    (check,) = doctor.browser()
    assert check.state == "failed"
    assert "setup.sh" in check.fix


def test_a_window_needs_a_browser_and_a_display(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("SELFSURF_BROWSER", str(tmp_path / "nothing"))
    browser, display = doctor.window()
    assert (browser.state, display.state) == ("optional", "optional")
    assert "xvfb-run" in display.fix
    monkeypatch.setenv("SELFSURF_BROWSER", sys.executable)
    monkeypatch.setenv("DISPLAY", ":7")
    assert [(check.state, check.found) for check in doctor.window()] == [("ok", sys.executable), ("ok", ":7")]


def test_a_package_that_drives_a_full_browser_is_not_ready_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SELFSURF_BROWSER", str(tmp_path / "nothing"))
    monkeypatch.setattr(doctor, "_present", lambda module: module == "stagehand")
    assert ("stagehand", "warning") in [(check.name, check.state) for check in doctor.window()]


def test_what_was_not_asked_for_is_optional(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here = {"openai", "langgraph", "langgraph-checkpoint-sqlite", "transformers"}  # which others need, too
    stamp = tmp_path / "setup.stamp"
    stamp.write_text("1 2 /root\nopenai graph\n/usr/bin/chromium\n", "utf8")
    monkeypatch.setattr(doctor, "SETUP", stamp)
    monkeypatch.setattr(doctor, "_present", lambda module: module in here)
    real = requirements.installed
    train = {item.name for item in requirements.needed() if item.extra == "train"}
    monkeypatch.setattr(requirements, "installed", lambda name: "" if name in train - here else real(name))
    checks = [*doctor.packages(), *doctor.backends()]
    assert not [check for check in checks if check.state == "failed"]
    show(checks)
    said = capsys.readouterr().out
    assert "What is installed works: the environment, openai, graph. Local models and training need" in said
    stamp.write_text("1 2 /root\ntrain\n/usr/bin/chromium\n", "utf8")
    checks = [*doctor.packages(), *doctor.backends()]
    assert {check.name for check in checks if check.state == "failed"} >= {"torch", "transformers"}
    show(checks)
    assert "The installation is faulty" in capsys.readouterr().out


def test_an_installed_package_is_judged_and_mended_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "CHECKOUT", False)
    monkeypatch.setattr(doctor, "CHECKOUT", False)
    monkeypatch.setattr(doctor, "SETUP", tmp_path / "none")
    monkeypatch.setattr(doctor, "_present", lambda module: False)
    monkeypatch.setattr(requirements, "installed", lambda name: "" if name in ("torch", "trl") else "0")
    monkeypatch.setenv("SELFSURF_BROWSER", "/nothing")
    checks = [check for part in (doctor.packages, doctor.browser, doctor.backends) for check in doctor.guarded(part)]
    assert not [check for check in checks if "setup.sh" in check.fix]
    torch = next(check for check in checks if check.name == "torch")
    assert (torch.state, torch.fix) == ("optional", "pip install 'selfsurf[train]' --upgrade --force-reinstall")
    assert next(check for check in checks if check.name == "transformers" and check.group == "backends").fix == (
        "pip install 'selfsurf[train]'"
    )


def test_a_broken_part_is_a_finding() -> None:
    def breaks():
        yield doctor.Check("group", "name", "ok", "")
        raise OSError("libgomp.so is missing")

    first, second = doctor.guarded(breaks)
    assert first.state == "ok"
    assert (second.state, second.found) == ("failed", "OSError: libgomp.so is missing")


def test_the_stub_of_tensorrt_is_not_taken_for_the_real_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "tensorrt_llm").mkdir()
    (tmp_path / "tensorrt_llm" / "__init__.py").touch()
    assert not doctor._has_tensorrt()
    (tmp_path / "tensorrt_llm" / "llmapi").mkdir()
    assert doctor._has_tensorrt()


TENSORRT = """
__version__ = "1.2.0"
class LLM:
    def __init__(self, model, tokenizer=None, tensor_parallel_size=1, dtype="auto", **kwargs): ...
    def generate(self, inputs, sampling_params=None, use_tqdm=True, lora_request=None): ...
    def shutdown(self): ...
class SamplingParams:
    def __init__(self, *, end_id=None, max_tokens=32, stop_token_ids=None, include_stop_str_in_output=False, top_k=None,
                 top_p=None, seed=None, temperature=None, logprobs=None, guided_decoding=None): ...
"""
TENSORRT_PARTS = {
    "llmapi/__init__.py": "class GuidedDecodingParams:\n    def __init__(self, *, json=None, grammar=None): ...",
    "llmapi/llm_args.py": "class TorchLlmArgs:\n    def __init__(self, *, guided_decoding_backend=None, lora_config=None,"
    " max_seq_len=None): ...",
    "executor/__init__.py": "",
    "executor/request.py": "class LoRARequest:\n    def __init__(self, lora_name, lora_int_id, lora_path=''): ...",
    "inputs.py": "def default_multimodal_input_loader(*, tokenizer, model_dir, model_type, modality, prompts, media=None): ...",
    "lora_manager.py": "class LoraConfig:\n    def __init__(self, lora_dir=(), max_lora_rank=64, lora_target_modules=(),"
    " max_loras=None, max_cpu_loras=None): ...",
}


@pytest.fixture
def tensorrt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with the names and signatures of TensorRT-LLM, on the path of this process and of its children."""
    package = tmp_path / "tensorrt_llm"
    for name, text in {"__init__.py": TENSORRT, **TENSORRT_PARTS}.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    return package


@pytest.mark.slow
def test_an_installation_of_tensorrt_is_looked_through(tensorrt: Path) -> None:
    version, gpu, api = doctor.tensorrt()
    assert (version.state, version.found) == ("ok", "1.2.0")
    assert gpu.state == "warning" if gpu.found == "no CUDA device" else "ok"
    assert (api.state, api.fix) == ("ok", "")


@pytest.mark.slow
def test_what_a_release_of_tensorrt_lacks_is_named(tensorrt: Path) -> None:
    (tensorrt / "__init__.py").write_text(TENSORRT.replace("use_tqdm=True, ", "").replace("shutdown", "stop"))
    (tensorrt / "lora_manager.py").unlink()
    *_, api = doctor.tensorrt()
    assert api.state == "warning"
    assert api.fix
    for lack in ("tensorrt_llm:LLM.generate(use_tqdm=)", "tensorrt_llm:LLM.shutdown", "no LoraConfig in"):
        assert lack in api.found
    assert "GuidedDecodingParams" not in api.found


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("raise ImportError('libcuda.so.1: cannot open')", "ImportError: libcuda.so.1: cannot open"),
        ("import os, sys; print('MPI_ABORT', file=sys.stderr, flush=True); os._exit(6)", "code 6: MPI_ABORT"),
    ],
)
def test_a_broken_tensorrt_is_a_warning(tensorrt: Path, text: str, says: str) -> None:
    (tensorrt / "__init__.py").write_text(text)
    (check,) = doctor.tensorrt()
    assert check.state == "warning"
    assert says in check.found


def test_agent_backends_are_named_with_their_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = {check.name: check for check in doctor.backends()}
    assert checks["transformers"].found.startswith(f"transformers {version('transformers')}, torch {version('torch')}")
    monkeypatch.setattr(doctor, "_present", lambda module: module in ("torch", "transformers"))
    absent = {check.name: check for check in doctor.backends()}
    for name in ("mlx", "openai", "nim", "ray"):
        assert (absent[name].state, absent[name].found) == ("optional", "not installed")


def test_packages_are_judged_by_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "SETUP", tmp_path / "none")
    assert RequiredPackage("x", "", ">=1.4,<2", "1.5").fits
    assert RequiredPackage("torch", "train", ">=2.13,<3", "2.13.0+cpu").fits
    assert not RequiredPackage("x", "", ">=1.4,<2", "2.0").fits
    assert not RequiredPackage("x", "", ">=1.4,<2", "").fits
    assert doctor._package("packages [dev]", RequiredPackage("x", "dev", ">=1", "")).state == "optional"
    assert doctor._package("packages", RequiredPackage("x", "", ">=1", "")).state == "failed"


def test_the_tested_versions_fit_the_metadata() -> None:
    root = Path(__file__).parents[2]
    lines = (root / ".ci/constraints.txt").read_text().splitlines()
    pins = [Requirement(line) for line in lines if not line.startswith("#")]
    versions = {
        canonicalize_name(pin.name): str(pin.specifier).removeprefix("==")
        for pin in pins
        if not pin.marker or pin.marker.evaluate()
    }
    for item in requirements.needed():
        if item.extra != "mlx":
            assert RequiredPackage(item.name, item.extra, item.wanted, versions[canonicalize_name(item.name)]).fits, (
                item
            )
    assert requirements.extra_of("torch.nn") == "train"
    assert requirements.extra_of("json") == ""
