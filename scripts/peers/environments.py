"""The peers' virtual environments in the cache folder: which packages, which Python, which browser."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from selfsurf.browser_env.errors import EnvError
from selfsurf.browser_env.session.browsers import cache_home, find_browser
from selfsurf.scripts.machine import install


class PeerError(EnvError):
    """A peer could not be installed, did not start, did not answer in time, or reported a failure."""


@dataclass(frozen=True)
class Requirements:
    """What a peer's virtual environment holds."""

    packages: tuple[str, ...]
    python_below: tuple[int, int] = (4, 0)
    """First Python version that the packages do not work with."""
    pip_options: tuple[str, ...] = ()
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

    Raises:
        PeerError: there is no fitting Python, its folder can't be made, or pip failed.
    """
    python = _interpreter(name, requirements)
    try:
        return install.venv(home(name) / "venv", requirements.packages, python, requirements.pip_options) / "bin/python"
    except install.Unavailable as error:
        raise PeerError(f"{name} could not be installed: {error}") from None


def _interpreter(name: str, requirements: Requirements) -> str:
    """Return the Python to make the environment with: ours, or an older one if the packages want that."""
    if sys.version_info[:2] < requirements.python_below:
        return sys.executable
    major, below = requirements.python_below
    for minor in range(below - 1, 9, -1):
        if found := shutil.which(f"python{major}.{minor}"):
            return found
    raise PeerError(f"{name} needs a Python older than {major}.{below}; install python{major}.{below - 1}.")


def browser_wrapper(path: Path) -> Path:
    """Write a script at `path` that runs the browser that ours runs in, with what it needs to run anywhere.

    Raises:
        BrowserNotFound: there is no browser.
    """
    return install.write_program(path, f'exec "{find_browser()}" --no-sandbox --disable-gpu "$@"')
