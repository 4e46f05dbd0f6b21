from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from selfsurf.scripts import install_browser


def executable(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_check_prints_a_browser_that_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    path = executable(tmp_path / "chrome", "echo Chromium 1")
    monkeypatch.setenv("SELFSURF_BROWSER", str(path))
    assert install_browser.main(["--check"]) == 0
    assert capsys.readouterr().out == f"{path}\n"


def test_check_says_why_a_browser_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    path = executable(tmp_path / "chrome", "echo libnss3.so: no such file >&2; exit 127")
    monkeypatch.setenv("SELFSURF_BROWSER", str(path))
    assert install_browser.main(["--check"]) == 1
    assert "libnss3.so" in capsys.readouterr().err


def test_when_every_way_fails_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys) -> None:
    def refused() -> None:
        """A way that leads nowhere."""
        raise install_browser.InstallError("refused")

    monkeypatch.setenv("SELFSURF_BROWSER", str(tmp_path / "nothing"))
    monkeypatch.setattr(install_browser, "ways", lambda: iter([refused]))
    assert install_browser.main([]) == 1
    shown = capsys.readouterr().out
    assert "refused" in shown
    assert "apt-get install chromium-headless-shell" in shown


def test_a_script_finds_its_libraries(tmp_path: Path) -> None:
    root = tmp_path / "it's a $folder"
    library = root / "usr/lib/x86_64-linux-gnu/libnss3.so"
    library.parent.mkdir(parents=True)
    library.touch()
    script = tmp_path / "script"
    install_browser.write_script(script, root, 'echo "$LD_LIBRARY_PATH|$1"')
    environment = {"PATH": os.environ["PATH"]}
    shown = subprocess.run([script, "a b"], capture_output=True, text=True, env=environment, check=True)
    assert shown.stdout == f"{library.parent}|a b\n"
