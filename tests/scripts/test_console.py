"""What commands keep off the screen."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from selfsurf.scripts.terminal.console import quiet_libraries


@pytest.mark.slow
def test_nor_from_python() -> None:
    command = "import selfsurf.sdft, selfsurf.sdft.trainers.grpo, selfsurf.agents.policies.transformers.policy"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


def test_libraries_do_not_speak_of_themselves() -> None:
    import transformers

    quiet_libraries()
    for name in ("bitsandbytes.backends.cpu.ops", "transformers.modeling_utils"):
        assert not logging.getLogger(name).isEnabledFor(logging.WARNING)
        assert logging.getLogger(name).isEnabledFor(logging.ERROR)
    assert not transformers.logging.is_progress_bar_enabled()
