"""The shell scripts, with a stand-in for Python: what is asked of pip, and what is not asked again."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.processes import ended, until

ROOT = Path(__file__).parents[2]

PYTHON = """\
#!/bin/sh
# Says yes to everything, makes .venv by copying itself, writes down what it was asked.
case "$*" in
    "-V") echo Python 3.11.0 ;;
    "-m venv "*) mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
    "-m pip install"*|"-m scripts"*) echo "$*" >>calls ;;
esac
case "$*" in
    "-m pip install"*torch*) [ ! -e killed ] || { rm killed; kill -9 "$PPID"; sleep 0.2; exit 1; } ;;
    *install_browser*) echo /bin/true ;;
esac
cat >/dev/null 2>&1 </dev/null
exit 0
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "a project"
    for name in ("pyproject.toml", ".ci/constraints.txt", "scripts/setup.sh"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    python = folder / "stand-in"
    python.write_text(PYTHON)
    python.chmod(0o755)
    return folder


def setup(project: Path, *arguments: str, **variables: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Run setup.sh from another directory; return how it ended and what was asked of pip and the browser."""
    environment = {**os.environ, "PYTHON": str(project / "stand-in"), **variables}
    environment.pop("SELFSURF_BROWSER", None)
    calls = project / "calls"
    calls.unlink(missing_ok=True)
    done = subprocess.run(
        ["bash", str(project / "scripts/setup.sh"), *arguments],
        cwd="/", env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    return done, calls.read_text().splitlines() if calls.exists() else []


def test_installs_once(project: Path) -> None:
    done, calls = setup(project)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "torch" in calls[0]
    assert "--editable .[train]" in calls[1]
    assert setup(project)[1] == []
    assert setup(project, "train")[0].stdout == ""


def test_extras_add_up(project: Path) -> None:
    setup(project, "train")
    _, calls = setup(project, "dev")
    assert any("--editable .[train,dev]" in call for call in calls)
    assert setup(project, "train")[1] == []


def test_changed_requirements_and_repair_install_again(project: Path) -> None:
    setup(project)
    assert setup(project, "--repair")[1]
    with open(project / "pyproject.toml", "a") as file:
        file.write("\n# changed\n")
    assert setup(project)[1]
    assert setup(project)[1] == []


def test_goes_on_after_being_killed(project: Path) -> None:
    (project / "killed").touch()
    done, _ = setup(project)
    assert done.returncode != 0
    done, calls = setup(project)
    assert done.returncode == 0, done.stderr
    assert len(calls) >= 2


def test_a_half_made_environment_is_made_anew(project: Path) -> None:
    (project / ".venv").mkdir()
    (project / ".venv/setup.unfinished").touch()
    (project / ".venv/rubbish").touch()
    assert setup(project)[0].returncode == 0
    assert not (project / ".venv/rubbish").exists()


def test_an_old_python_is_refused(project: Path) -> None:
    done, _ = setup(project, PYTHON="/bin/false")
    assert done.returncode == 1
    assert "Python 3.11 or newer is needed" in done.stderr


@pytest.mark.parametrize("name", ["setup.sh", "demo.sh", "test.sh"])
def test_the_scripts_are_valid(name: str) -> None:
    subprocess.run(["bash", "-n", str(ROOT / "scripts" / name)], check=True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_set_up_that_is_ended_from_outside_ends_at_once(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "test.sh", tmp_path / "scripts")
    (tmp_path / "scripts" / "setup.sh").write_text("sleep 300 & echo $! >began.part; mv began.part began; wait\n")
    run = subprocess.Popen(["bash", "scripts/test.sh"], cwd=tmp_path, stdout=-1, text=True)
    assert until((tmp_path / "began").exists, 30)
    run.send_signal(number)
    out, _ = run.communicate(timeout=60)
    assert out.splitlines()[-1] == "failed: nothing was tested, the set-up ended before"
    assert run.returncode == 128 + number
    assert ended(int((tmp_path / "began").read_text()))
