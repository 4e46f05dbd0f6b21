"""What commands keep off the screen."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from selfsurf.scripts.terminal.console import progress, quiet_libraries, show_error, time_left


@pytest.mark.slow
def test_nor_from_python() -> None:
    command = "import selfsurf.sdft, selfsurf.sdft.trainers.grpo, selfsurf.agents.policies.transformers.policy"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_error_moves_no_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    show_error("The page said: \x1b[2J\nand more.", "Traceback:\n  \x9b2J")
    assert capsys.readouterr().err == "The page said: \\u001b[2J\nand more.\nTraceback:\n  \\u009b2J\n"


def test_libraries_do_not_speak_of_themselves() -> None:
    import transformers

    quiet_libraries()
    for name in ("bitsandbytes.backends.cpu.ops", "transformers.modeling_utils"):
        assert not logging.getLogger(name).isEnabledFor(logging.WARNING)
        assert logging.getLogger(name).isEnabledFor(logging.ERROR)
    assert not transformers.logging.is_progress_bar_enabled()


@pytest.mark.parametrize(
    ("done", "left", "seconds", "says"),
    [
        (0, 5, 10.0, ""),
        (5, 0, 10.0, ""),
        (2, 8, 10.0, ", about 40 s left"),
        (10, 90, 80.0, ", about 12 min left"),
        (1, 9, 1200.0, ", about 3.0 h left"),
    ],
)
def test_the_time_left_is_told_by_the_pace_so_far(done: int, left: int, seconds: float, says: str) -> None:
    assert time_left(done, left, seconds) == says


def test_progress_without_a_terminal_tells_the_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("Episodes", 20) as update:
        update(10)  # played by an earlier process: they say nothing of the pace
        for done in (12, 14, 20):
            update(done, note="5 solved")
    title, resumed, first, under_way, end = capsys.readouterr().err.splitlines()
    assert (title, resumed) == ("Episodes ...", "Episodes: 10/20, 0 s")
    assert first == "Episodes: 12/20, 0 s 5 solved"
    assert under_way == "Episodes: 14/20, 0 s, about 0 s left 5 solved"
    assert end == "Episodes: 20/20, 0 s 5 solved"


def test_start_up_does_not_count_in_the_time_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    with progress("Episodes", 10) as update:
        update(0)
        for clock[0], done in ((100.0, 1), (101.0, 2)):
            update(done)
    *_, first, second = capsys.readouterr().err.splitlines()
    assert (first, second) == ("Episodes: 1/10, 100 s", "Episodes: 2/10, 101 s, about 8 s left")
