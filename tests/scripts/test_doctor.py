from __future__ import annotations

import json
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from typer.testing import CliRunner

from scripts import cli, doctor, requirements
from scripts.requirements import Needed


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


def test_a_broken_part_is_a_finding() -> None:
    def breaks():
        yield doctor.Check("group", "name", "ok", "")
        raise OSError("libgomp.so is missing")

    first, second = doctor._guarded(breaks)
    assert first.state == "ok"
    assert (second.state, second.found) == ("failed", "OSError: libgomp.so is missing")


def test_the_stub_of_tensorrt_is_not_taken_for_the_real_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "tensorrt_llm").mkdir()
    (tmp_path / "tensorrt_llm" / "__init__.py").touch()
    assert not doctor._has_tensorrt()
    (tmp_path / "tensorrt_llm" / "llmapi").mkdir()
    assert doctor._has_tensorrt()


def test_packages_are_judged_by_version() -> None:
    assert Needed("x", "", ">=1.4,<2", "1.5").fits
    assert Needed("torch", "train", ">=2.13,<3", "2.13.0+cpu").fits
    assert not Needed("x", "", ">=1.4,<2", "2.0").fits
    assert not Needed("x", "", ">=1.4,<2", "").fits
    assert doctor._package("packages [dev]", Needed("x", "dev", ">=1", "")).state == "optional"
    assert doctor._package("packages", Needed("x", "", ">=1", "")).state == "failed"


def test_the_tested_versions_fit_the_metadata() -> None:
    root = Path(__file__).parents[2]
    lines = (root / ".ci/constraints.txt").read_text().splitlines()
    pins = [Requirement(line) for line in lines if not line.startswith("#")]
    versions = {
        pin.name: str(pin.specifier).removeprefix("==") for pin in pins if not pin.marker or pin.marker.evaluate()
    }
    for item in requirements.needed():
        if item.extra != "mlx":
            assert Needed(item.name, item.extra, item.wanted, versions[item.name]).fits, item
    assert requirements.extra_of("torch.nn") == "train"
    assert requirements.extra_of("json") == ""
