"""The suite's own run: what fails is tried again by itself, and the last line says what came of it, however it ends."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.processes import until

ROOT = Path(__file__).parents[2]

RUN = """
import sys
from pathlib import Path
from tests import suite
suite.ROOT, suite.CHECKS, suite.BESIDE = Path.cwd(), {}, {}
suite.MOST_UNSTABLE, suite.WORKERS = int(sys.argv.pop(1)), int(sys.argv.pop(1))
suite.RESULTS = Path.cwd() / "runs"
sys.exit(suite.main())
"""
CHANCE = """
import pathlib, pytest
@pytest.mark.parametrize("part", ["a", "b@c"])
def test_chance(part):
    seen = pathlib.Path(__file__).with_name(part)
    if not seen.exists():
        seen.touch()
        raise AssertionError("the first time")
def test_fine(): pass
"""
BROKEN = "def test_broken(): assert False\n"
SLOW = "import pathlib, time\ndef test_slow():\n    pathlib.Path('began').touch()\n    time.sleep(60)\n"


def start(folder: Path, most: int = 3, workers: int = 0, *options: str, **tests: str) -> subprocess.Popen[str]:
    for name, text in tests.items():
        (folder / f"test_{name}.py").write_text(text)
    words = [sys.executable, "-c", RUN, str(most), str(workers), "-p", "no:cacheprovider", *options]
    plugins = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin,pytest_reportlog.plugin"}
    around = {**os.environ, "PYTHONPATH": str(ROOT), **plugins}
    return subprocess.Popen(words, cwd=folder, env=around, stdout=-1, stderr=subprocess.STDOUT, text=True)


def last_line(run: subprocess.Popen[str]) -> str:
    out, _ = run.communicate(timeout=100)
    return out.rstrip().splitlines()[-1]


@pytest.mark.parametrize(("most", "code", "verdict"), [(3, 0, "passed"), (1, 1, "failed")])
def test_what_passes_by_itself_is_unstable(tmp_path: Path, most: int, code: int, verdict: str) -> None:
    run = start(tmp_path, most, chance=CHANCE)
    assert last_line(run).startswith(f"{verdict}: 3 passed, 0 failed, 2 unstable, 0 skipped in 0:")
    assert run.returncode == code
    result = json.loads((tmp_path / "runs" / "results.json").read_text())
    assert sorted(result["unstable"]) == ["test_chance.py::test_chance[a]", "test_chance.py::test_chance[b@c]"]


def test_what_fails_again_fails_the_run(tmp_path: Path) -> None:
    run = start(tmp_path, chance=CHANCE, broken=BROKEN)
    assert last_line(run).startswith("failed: 3 passed, 1 failed, 2 unstable, 0 skipped in 0:")
    assert run.returncode == 1


def test_what_is_skipped_by_itself_has_failed(tmp_path: Path) -> None:
    skips = "    if seen.exists(): pytest.skip('not now')\n"
    run = start(tmp_path, chance=CHANCE.replace("    if not", f"{skips}    if not"))
    assert last_line(run).startswith("failed: 1 passed, 2 failed, 0 unstable, 0 skipped in 0:")
    assert run.returncode == 1


def test_a_run_without_a_test_has_not_passed(tmp_path: Path) -> None:
    run = start(tmp_path, nothing="import pytest\n@pytest.mark.skip\ndef test_it(): pass\n")
    assert last_line(run).startswith("failed: 0 passed, 0 failed, 0 unstable, 1 skipped; no test was run in 0:")
    assert run.returncode == 1


def test_tests_that_cannot_be_collected_fail_it(tmp_path: Path) -> None:
    run = start(tmp_path, broken="import nothing_of_that_name\n")
    assert "pytest ended with" in last_line(run)
    assert run.returncode == 1


def test_a_test_that_passes_by_itself_does_not_hide_those_that_cannot_be_collected(tmp_path: Path) -> None:
    run = start(
        tmp_path, 3, 0, "--continue-on-collection-errors", chance=CHANCE, broken="import nothing_of_that_name\n"
    )
    assert last_line(run).startswith("failed: 1 passed, 2 failed, 0 unstable")
    assert run.returncode == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_run_that_is_ended_from_outside_says_so(tmp_path: Path, number: signal.Signals) -> None:
    run = start(tmp_path, workers=2, slow=SLOW, chance="def test_fine(): pass\n")
    reports = tmp_path / "runs" / "reports.jsonl"
    assert until(lambda: (tmp_path / "began").exists() and '"teardown"' in reports.read_text(), 60)  # of the other test
    began = time.monotonic()
    run.send_signal(number)
    assert last_line(run).startswith(f"ended by {number.name}: 1 passed, 0 failed, 0 unstable, 0 skipped in 0:")
    assert run.returncode == 128 + number
    assert time.monotonic() - began < 40
