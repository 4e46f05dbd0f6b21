"""The wheel has all that the tree has, and works beside `openai-agents` and a project with folders named as ours."""

from __future__ import annotations

import json
import os
import site
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.package.conftest import LEFT_OUT, PARTS

ACTS = """
import selfsurf, gymnasium, pathlib, sys
assert pathlib.Path(selfsurf.__file__).is_relative_to(sys.prefix), selfsurf.__file__

import agents, tasks, scripts, tests
assert all(module.MARK == module.__name__ for module in (agents, tasks, scripts, tests))

env = gymnasium.make("MiniWoB/click-test-v0", screenshot=False)
obs, _ = env.reset(seed=1)
agent = selfsurf.agents.make("random", seed=1)
agent.reset(obs["goal"])
_, _, _, _, info = env.step(agent.act(obs))
assert info["outcome"] in ("running", "solved", "failed"), info
env.close()

env = gymnasium.make("Browser-v0", start_url="data:text/html,<button>Press</button>", goal="Press.")
obs, _ = env.reset(seed=1)
[button] = obs["elements"]
obs, *_ = env.step({"action": "click", "id": button["id"]})
assert not obs["last_error"], obs["last_error"]
env.close()

from selfsurf.agents.policies.openai.policy import OpenAIPolicy
assert selfsurf.agents.policy_class("openai") is OpenAIPolicy
assert agents.MARK == "agents" and not [name for name in sys.modules if name.startswith("agents.")]
"""
OPENAIS = """
import agents, selfsurf.agents
assert agents.Agent is not selfsurf.agents.Agent and agents.Runner
"""


def test_a_wheel_has_the_trees_files(wheel: Path, parts: list[Path]) -> None:
    base = Path("envs_registry", "selfsurf")
    expected = {
        str("selfsurf" / (file.relative_to(base) if file.is_relative_to(base) else file))
        for file in parts
        if file.suffix not in LEFT_OUT
    }
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
        for part in PARTS:
            assert f"selfsurf/{part}/py.typed" in packed
    assert packed == expected


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment with the wheel and `openai-agents`.

    What they depend on is found in the environment of this process, whose own `selfsurf` comes after the wheel's.
    """
    folder = tmp_path_factory.mktemp("fresh") / "venv"
    _done([sys.executable, "-m", "venv", "--without-pip", folder])
    [packages] = folder.glob("lib/python*/site-packages")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", folder / "bin" / "python", "install"]
    _done([*pip, "--quiet", "--no-deps", "--no-index", wheel])
    (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()), encoding="utf8")
    _done([*pip, "--quiet", "openai-agents"])
    return folder / "bin"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with packages of its own whose names are those of our folders."""
    for name in ("agents", "tasks", "scripts", "tests"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"MARK = {name!r}\n", encoding="utf8")
    return tmp_path


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_installed_wheel_works_in_a_project_with_such_folders(installed: Path, project: Path) -> None:
    (project / "acts.py").write_text(ACTS, encoding="utf8")
    _done([installed / "python", "acts.py"], project)
    for inside in ({"PYTHONPATH": str(project)}, {}):  # as with `python -m`, and as with the command alone
        version = _done([installed / "selfsurf", "--version"], project, **inside)
        assert version.startswith("0.")
        listed = json.loads(_done([installed / "selfsurf", "envs", "--json"], project, **inside))
        assert {"Browser-v0", "MiniWoB/click-test-v0"} <= {row["id"] for row in listed}
        checks = json.loads(_done([installed / "selfsurf", "doctor", "--json"], project, fails=True, **inside))
        assert next(check["found"] for check in checks if check["name"] == "selfsurf").endswith("an installed package")
        assert not [check for check in checks if check["state"] == "failed" or "setup.sh" in check["fix"]]
        run = [installed / "selfsurf", "run", "--task", "MiniWoB/click-test-v0", "--backend", "random", "--json"]
        assert json.loads(_done([*run, "--out", project / f"run{len(inside)}"], project, fails=True, **inside))
    elsewhere = project / "elsewhere"
    elsewhere.mkdir()
    _done([installed / "python", "-c", OPENAIS], elsewhere)


def _done(command: list[str | Path], folder: Path | None = None, *, fails: bool = False, **environment: str) -> str:
    """What a command printed. One that `fails` may end with 1, as for a task that was not solved, with no traceback."""
    inherited = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(
        command, cwd=folder, env=inherited | environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode in ((0, 1) if fails else (0,)), done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout
