"""A browser that does not start, or ends: what it said itself is in the message."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from selfsurf.browser_env import BrowserEnv, EnvError
from selfsurf.browser_env.browser.browsers import find_browser
from selfsurf.browser_env.browser.stderr_capture import MOST, StderrCapture

WORDS = "[1124/202641.613099:ERROR:base/i18n/icu_util.cc:237] Invalid file descriptor to ICU data received."
PAGE = "data:text/html,<button>Press</button>"


@pytest.fixture
def browser(tmp_path: Path) -> Callable[[str], str]:
    """Makes a browser of lines of shell."""

    def make(lines: str) -> str:
        program = tmp_path / "a browser"
        program.write_text(f"#!/bin/sh\n{lines}\n")
        program.chmod(0o700)
        return str(program)

    return make


def test_a_browser_that_does_not_start_says_why(
    browser: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    env = BrowserEnv(PAGE, "Press.", screenshot=False, executable=browser(f"echo '{WORDS}' >&2; exit 1"))
    with pytest.raises(EnvError, match=r"did not start: Invalid file descriptor to ICU data received\.$") as error:
        env.reset(seed=0)
    assert not error.value.traceback
    env.close()
    assert not list(tmp_path.glob("selfsurf-browser-*"))


def test_a_browser_that_ends_in_an_episode_says_why(browser: Callable[[str], str], tmp_path: Path) -> None:
    end = tmp_path / "end"
    real = f"'{find_browser()}' \"$@\" & while [ ! -e '{end}' ]; do sleep 0.1; done"
    spec = browser(f"{real}; echo '{WORDS}' >&2; kill -9 $!; exit 1")
    env = BrowserEnv(PAGE, "Press.", screenshot=False, executable=spec)
    env.reset(seed=0)
    end.touch()
    time.sleep(0.5)
    _, _, _, truncated, info = env.step({"action": "wait", "ms": 1})
    assert truncated
    assert info["outcome"] == "env_error"
    assert info["outcome_detail"] == "the browser has ended: Invalid file descriptor to ICU data received."
    env.close()


def test_noise_is_left_out_and_forgotten() -> None:
    words = StderrCapture(sys.executable)
    words.started()
    noise = "[1:2:ERROR:dbus/bus.cc(408)] Failed to connect\n[1:2:WARNING:a.cc(1)] slow\n#0 0x55d1c content::Main()\n"
    words._stream.write(f"{noise}[1:2:FATAL:b.cc(2)] Check failed: x. \n{noise}".encode())
    words._stream.flush()
    assert str(words) == "Check failed: x."
    words._stream.write(b"y" * MOST)
    words._stream.flush()
    words.trim()
    assert str(words) == ""
