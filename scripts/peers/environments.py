"""Virtual environments of the peers in the cache folder: packages, Python and browser."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from selfsurf.browser_env.browser.browsers import cache_home, find_browser
from selfsurf.browser_env.errors import EnvError
from selfsurf.scripts.machine import install


class PeerError(EnvError):
    """A peer that could not be installed or started, timed out, or reported a failure."""


@dataclass(frozen=True)
class Requirements:
    """Contents of a peer's virtual environment."""

    packages: tuple[str, ...]
    python_below: tuple[int, int] = (4, 0)
    """First Python version that the packages don't support."""
    pip_options: tuple[str, ...] = ()
    """Further options of `pip install`."""


REQUIREMENTS = {
    "browsergym": Requirements(
        # browsergym-core pins this playwright, whose greenlet has no wheels for Python 3.13.
        ("browsergym-core==0.14.3", "browsergym-miniwob==0.14.3", "miniwob==1.1.0", "playwright==1.44.0"),
        python_below=(3, 13),
    ),
    "browser-use": Requirements(("browser-use==0.13.14",)),
}
"""Requirements of each peer, at the compared versions."""


def home(name: str) -> Path:
    """Return the folder of a peer, for its virtual environment, browser wrapper and logs."""
    return cache_home() / "peers" / name


def make(name: str, requirements: Requirements) -> Path:
    """Create a peer's virtual environment, unless it exists, and return its Python.

    Raises:
        PeerError: There is no suitable Python, the folder can't be created, or pip failed.
    """
    python = _interpreter(name, requirements)
    try:
        return install.venv(home(name) / "venv", requirements.packages, python, requirements.pip_options) / "bin/python"
    except install.Unavailable as error:
        raise PeerError(f"{name} could not be installed: {error}") from None


def _interpreter(name: str, requirements: Requirements) -> str:
    """Return the Python for the environment: the current one, or an older one if the packages need it."""
    if sys.version_info[:2] < requirements.python_below:
        return sys.executable
    major, below = requirements.python_below
    for minor in range(below - 1, 9, -1):
        if found := shutil.which(f"python{major}.{minor}"):
            return found
    raise PeerError(f"{name} needs a Python older than {major}.{below}; install python{major}.{below - 1}.")


def browser_wrapper(path: Path) -> Path:
    """Write a script at `path` that runs selfsurf's browser with the switches it needs on any machine.

    Raises:
        BrowserNotFound: There is no browser.
    """
    return install.write_program(path, f'exec "{find_browser()}" --no-sandbox --disable-gpu "$@"')
