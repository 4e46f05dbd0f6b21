"""The Python documentation as HTML, which has some of the longest pages there are: Debian's package python3-doc."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from selfsurf.browser_env.errors import EnvError
from selfsurf.browser_env.session.browsers import cache_home
from selfsurf.scripts.install_browser import unpack

PACKAGE = "python3-doc"

PAGES = ("library/functions.html", "genindex-all.html")
"""Pages that it must have: one of 290 KB, one of 1.7 MB."""

INSTALLED = Path("/usr/share/doc")

DOWNLOAD_SECONDS = 600.0


def python_docs(folder: Path | None = None) -> Path:
    """Return the folder of the documentation: the system's, or the package unpacked into the cache folder.

    Args:
        folder: take this one.

    Raises:
        EnvError: `folder` is not the documentation; there is neither apt nor the documentation; apt failed.
    """
    if folder is not None:
        if not _is_complete(folder):
            raise EnvError(f"{folder} is not the Python documentation: it lacks one of {', '.join(PAGES)}.")
        return folder
    unpacked = cache_home() / "python-docs"
    found = _found(INSTALLED) or _found(unpacked / "usr/share/doc")
    if found is None:
        if not shutil.which("apt-get"):
            raise EnvError("The Python documentation is not here, and there is no apt to fetch it; see --docs.")
        # With all that its pages link to, also what the system has.
        unpack(PACKAGE, unpacked, status="/dev/null", execute=_run)
        found = _found(unpacked / "usr/share/doc")
    if found is None:
        raise EnvError(f"The package {PACKAGE} lacks one of {', '.join(PAGES)}; see --docs.")
    return found


def _found(root: Path) -> Path | None:
    return next((folder for folder in sorted(root.glob("python3*/html")) if _is_complete(folder)), None)


def _is_complete(folder: Path) -> bool:
    return all((folder / page).is_file() for page in PAGES)


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise EnvError(f"The Python documentation could not be fetched: {error}") from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise EnvError(f"The Python documentation could not be fetched: {command[0]}: {said[-1]}")
