"""What commands keep off the screen."""

from __future__ import annotations

import logging

from selfsurf.scripts.terminal.console import quiet_libraries


def test_libraries_do_not_speak_of_themselves() -> None:
    import transformers

    quiet_libraries()
    for name in ("bitsandbytes.backends.cpu.ops", "transformers.modeling_utils"):
        assert not logging.getLogger(name).isEnabledFor(logging.WARNING)
        assert logging.getLogger(name).isEnabledFor(logging.ERROR)
    assert not transformers.logging.is_progress_bar_enabled()
