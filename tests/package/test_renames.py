"""What earlier versions called otherwise is answered with its name of today, by every command and by Python."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from selfsurf.browser_env.classes import load_class
from selfsurf.envs_registry import load_suite
from selfsurf.renames import IMPORTS, REMOVED_SETTINGS, SETTINGS, Renamed
from selfsurf.scripts.cli import app
from selfsurf.sdft.settings import GRPOSettings, RolloutSettings, TrainSettings

TASK = "MiniWoB/click-test-v0"


def names(path: str) -> None:
    """Import a module, or what stands in one."""
    for inner in (False, True):
        module, _, attribute = path.rpartition(".") if inner else (path, "", "")
        try:
            found = importlib.import_module(module)
        except ModuleNotFoundError:
            continue
        assert not attribute or hasattr(found, attribute), path
        return
    raise AssertionError(path)


@pytest.mark.parametrize("old", IMPORTS)
def test_an_old_import_names_the_new_one_which_is_there(old: str) -> None:
    names(f"selfsurf.{IMPORTS[old]}")
    package, _, name = f"selfsurf.{old}".rpartition(".")
    for statement in (f"import selfsurf.{old}", f"from {package} import {name}"):
        if statement == "from selfsurf.sdft import train":  # which is the function
            continue
        with pytest.raises(Renamed, match=f"of 0.1.0 is now selfsurf.{IMPORTS[old]}"):
            exec(statement)
    assert find_spec(f"selfsurf.{old}") is None, "who only asks gets an answer"


def test_a_bare_name_is_answered_where_nobody_else_has_it(tmp_path: Path) -> None:
    program = """
import importlib.util, sys
import selfsurf
assert importlib.util.find_spec("browser_env") is None
try:
    from browser_env import Task
except ModuleNotFoundError as error:
    assert error.name == "browser_env" and str(error) == "There is no module browser_env; import selfsurf.browser_env."
else:
    raise AssertionError
sys.path.insert(0, sys.argv[1])
import agents
try:
    import agents.parse
except ModuleNotFoundError as error:
    assert str(error) == "No module named 'agents.parse'", error
else:
    raise AssertionError
"""
    (tmp_path / "own" / "agents").mkdir(parents=True)
    (tmp_path / "own" / "agents" / "__init__.py").touch()
    arguments = [sys.executable, "-c", program, str(tmp_path / "own")]
    without = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(arguments, cwd=tmp_path, env=without, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_files_of_ones_own_are_told_what_they_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [path for path in sys.path if not (Path(path or ".") / "browser_env").is_dir()])
    monkeypatch.chdir(tmp_path)
    for name in ("browser_env", "envs_registry"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "shop.py").write_text("from browser_env import Task\nclass Order(Task): ...\n")
    (tmp_path / "old.py").write_text("from selfsurf.browser_env.record import Recorder\nclass Order: ...\n")
    (tmp_path / "suite.py").write_text("from envs_registry.suites import Suite\n")
    for file, says in (("shop", "import selfsurf.browser_env"), ("old", "record.recorder.Recorder")):
        for command in (["run", "--task"], ["bench", "run"], ["run", "--task", TASK, "--agent"], ["train"]):
            result = CliRunner().invoke(app, [*command, f"{tmp_path}/{file}.py:Order"])
            assert (result.exit_code, says in " ".join(result.output.replace("│", " ").split())) == (2, True)
    with pytest.raises(ValueError, match=r"import selfsurf\.envs_registry"):
        load_suite(tmp_path / "suite.py")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("agents.policies.transformers:TransformersPolicy", "There is no module agents; import selfsurf.agents"),
        ("selfsurf.agents.policies.mlx:MLXPolicy", r"is now selfsurf\.agents\.policies\.mlx\.policy\.MLXPolicy"),
        ("selfsurf.agents.parse:parse", r"is now selfsurf\.agents\.reply\.parse"),
        ("nothing:Class", "There is no module 'nothing'"),
    ],
)
def test_a_class_by_an_old_name_is_answered(name: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    here = ("browser_env", "agents.py")  # the latter where an agent of another test came from
    elsewhere = [path for path in sys.path if not any((Path(path or ".") / name).exists() for name in here)]
    monkeypatch.setattr(sys, "path", elsewhere)
    monkeypatch.delitem(sys.modules, "agents", raising=False)
    with pytest.raises(ValueError, match=says):
        load_class(name)


@pytest.mark.parametrize("name", [*SETTINGS, *REMOVED_SETTINGS])
def test_an_old_setting_is_answered_in_python(name: str) -> None:
    says = f"{name} is {SETTINGS[name]} now" if name in SETTINGS else f"{name} was removed in 0.2.0"
    for kind in (TrainSettings, GRPOSettings):
        with pytest.raises(ValueError, match=says):
            kind(tasks=(TASK,), **{name: 1})


@pytest.mark.parametrize(
    ("name", "says"), [("ahead", "ahead is rollouts.ahead now"), ("top_k", "top_k was removed in 0.2.0")]
)
def test_an_old_setting_is_answered_by_every_command(
    name: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    out = ["--out", str(tmp_path / "new")]
    commands = [["train", TASK, *out], ["bench", "learn", *out], ["bench", "learn", "--arms", "sdft:own", *out]]
    for command in commands:
        result = CliRunner().invoke(app, [*command, "--set", f"{name}=1"])
        assert (result.exit_code, says in " ".join(result.output.replace("│", " ").split())) == (2, True), result.output
    for line in (f"set = {{ {name} = 1 }}", f"{name} = 1"):
        (tmp_path / "selfsurf.toml").write_text(f"[train]\n{line}\n")
        result = CliRunner().invoke(app, ["train", TASK, *out])
        assert (result.exit_code, says in " ".join(result.output.replace("│", " ").split())) == (2, True), result.output


def test_settings_are_still_read_strictly_from_json() -> None:
    asked = {"tasks": [TASK], "contexts": ["oracle"], "steps": 3}
    assert TrainSettings.model_validate_json(json.dumps(asked), strict=True).contexts == ("oracle",)
    with pytest.raises(ValidationError, match="valid integer"):
        TrainSettings.model_validate_json(json.dumps({**asked, "steps": "3"}), strict=True)


def test_every_setting_leads_to_one_that_there_is() -> None:
    group, _, name = zip(*(new.partition(".") for new in SETTINGS.values()), strict=True)
    assert set(group) == {"rollouts"}
    assert set(name) <= RolloutSettings.model_fields.keys()
    assert not REMOVED_SETTINGS.keys() & TrainSettings.model_fields.keys()
