"""What commands keep off the screen."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from selfsurf.scripts.terminal.console import quiet_libraries, show_error


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
