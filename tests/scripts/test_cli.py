from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from selfsurf.scripts import cli

runner = CliRunner()


def run(*arguments: str):
    return runner.invoke(cli.app, list(arguments))


def test_help_names_every_command_and_imports_none() -> None:
    source = """if True:
        import sys
        from typer.testing import CliRunner
        from selfsurf.scripts import cli
        print(CliRunner().invoke(cli.app, ["--help"]).output)
        heavy = {"torch", "playwright", "transformers", "selfsurf.agents", "selfsurf.sdft"} & set(sys.modules)
        sys.exit(str(heavy) if heavy else 0)
    """
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name in cli.COMMANDS:
        assert f" {name} " in done.stdout


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_every_command_has_help(name: str) -> None:
    result = run(name, "--help")
    assert result.exit_code == 0, result.output
    assert "--json" in result.output or "COMMAND" in result.output


def test_unknown_command_fails() -> None:
    assert run("nothing").exit_code == 2


def test_a_returned_number_is_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cli.COMMANDS, "seven", (f"{__name__}:seven", "Return 7."))
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])
    assert run("seven").exit_code == 7


def seven() -> int:
    return 7


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cli.COMMANDS, "needy", (f"{__name__}:needy", "Need torch."))
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])
    result = run("needy")
    assert result.exit_code == 1
    assert "bash scripts/setup.sh train" in result.output


def test_an_error_of_the_system_is_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setitem(cli.COMMANDS, "lost", (f"{__name__}:lost", "Read a file."))
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])
    monkeypatch.chdir(tmp_path)
    result = run("lost")
    assert (result.exit_code, result.stderr) == (1, "file/below: Not a directory.\n")


def lost() -> None:
    Path("file/below").read_text()


def needy() -> None:
    raise ModuleNotFoundError("No module named 'torch'", name="torch")


def test_envs_lists_ids() -> None:
    result = run("envs", "--json", "--match", "CLICK-TEST-2")
    assert result.exit_code == 0
    assert [row["id"] for row in json.loads(result.stdout)] == ["MiniWoB/click-test-2-v0"]
    assert run("envs", "--match", "no such environment").exit_code == 1


def test_models_list_and_unknown_model(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELFSURF_HOME", str(tmp_path))
    rows = json.loads(run("models", "list", "--json").stdout)
    assert [row["path"] for row in rows] == [None] * len(rows)
    failed = run("models", "pull", "nothing")
    assert failed.exit_code == 1
    assert "Unknown model" in failed.output
