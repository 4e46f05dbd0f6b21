"""Makes the peers' virtual environments in the cache folder, once, and finishes what was cut off."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from selfsurf.browser_env.errors import EnvError
from selfsurf.browser_env.session.browsers import cache_home, find_browser

MAKING_SECONDS = 1800.0
"""The longest that pip may take for one environment."""


class PeerError(EnvError):
    """A peer could not be installed, did not start, did not answer in time, or reported a failure."""


@dataclass(frozen=True)
class Requirements:
    """What a peer's virtual environment holds."""

    packages: tuple[str, ...]
    python_below: tuple[int, int] = (4, 0)
    """First Python version that the packages do not work with."""
    pip_options: tuple[str, ...] = field(default=())
    """Further options of `pip install`."""


REQUIREMENTS = {
    "browsergym": Requirements(
        # What browsergym-core itself pins: its playwright and, by it, a greenlet without wheels for Python 3.13.
        ("browsergym-core==0.14.3", "browsergym-miniwob==0.14.3", "miniwob==1.1.0", "playwright==1.44.0"),
        python_below=(3, 13),
    ),
    "browser-use": Requirements(("browser-use==0.13.14",)),
}
"""Peer -> what it needs, at the versions that are compared with."""


def home(name: str) -> Path:
    """Return the folder of a peer: its virtual environment, its browser's wrapper, its logs."""
    return cache_home() / "peers" / name


def make(name: str, requirements: Requirements) -> Path:
    """Make a peer's virtual environment, unless it is there, and return its Python.

    An environment that was not finished, or was made for other packages, is recreated. Several processes may call
    this at a time.

    Raises:
        PeerError: there is no fitting Python, its folder can't be made, or pip failed.
    """
    folder = home(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PeerError(f"{name} could not be installed: {error}") from None
    interpreter = _interpreter(name, requirements)
    mark, venv, log = folder / "made.json", folder / "venv", folder / "pip.log"
    wanted = json.dumps({"packages": requirements.packages, "python": interpreter})
    python = venv / "bin" / "python"
    with _locked(folder / "lock"):
        if mark.is_file() and mark.read_text(encoding="utf8") == wanted and python.exists():
            return python
        mark.unlink(missing_ok=True)
        shutil.rmtree(venv, ignore_errors=True)
        print(f"Installing {', '.join(requirements.packages)} into {venv} ...", file=sys.stderr, flush=True)
        install = [str(python), "-m", "pip", "install", "--disable-pip-version-check", *requirements.pip_options]
        with log.open("w", encoding="utf8") as output:
            for command in ([interpreter, "-m", "venv", str(venv)], [*install, *requirements.packages]):
                _run(name, command, output.fileno(), log)
        mark.write_text(wanted, encoding="utf8")
    return python


def _run(name: str, command: list[str], output: int, log: Path) -> None:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=MAKING_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerError(f"{name} could not be installed: {error}") from None
    if done.returncode:
        lines = [line for line in log.read_text(encoding="utf8", errors="replace").splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR")] or lines
        last = errors[-1] if errors else f"exit code {done.returncode}"
        raise PeerError(f"{name} could not be installed: {last} (all of it: {log})")


def _interpreter(name: str, requirements: Requirements) -> str:
    """Return the Python to make the environment with: ours, or an older one if the packages want that."""
    if sys.version_info[:2] < requirements.python_below:
        return sys.executable
    major, below = requirements.python_below
    for minor in range(below - 1, 9, -1):
        found = shutil.which(f"python{major}.{minor}")
        if found:
            return found
    raise PeerError(f"{name} needs a Python older than {major}.{below}; install python{major}.{below - 1}.")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def browser_wrapper(path: Path) -> Path:
    """Write a script at `path` that runs the browser that ours runs in, with what it needs to run anywhere.

    Raises:
        BrowserNotFound: there is no browser.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.{os.getpid()}")
    new.write_text(f'#!/bin/sh\nexec "{find_browser()}" --no-sandbox --disable-gpu "$@"\n', encoding="utf8")
    new.chmod(0o755)
    new.replace(path)
    return path
