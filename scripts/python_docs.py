"""The Python documentation as HTML, which has some of the longest pages there are: Debian's package python3-doc."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from browser_env.browsers import cache_home
from browser_env.errors import EnvError

PACKAGE = "python3-doc"

INSTALLED = Path("/usr/share/doc")

DOWNLOAD_SECONDS = 600.0


def python_docs() -> Path:
    """Return the folder of the documentation: the system's, or the package unpacked into the cache folder.

    Raises:
        EnvError: there is neither apt nor the documentation, or apt failed.
    """
    unpacked = cache_home() / "python-docs"
    for root in (INSTALLED, unpacked / "usr/share/doc"):
        for page in sorted(root.glob("python3*/html/genindex-all.html")):
            if (page.parent / "library/functions.html").is_file():
                return page.parent
    if not shutil.which("apt-get"):
        raise EnvError("The Python documentation is not here, and there is no apt to fetch it; see --docs.")
    _unpack(unpacked)
    found = sorted((unpacked / "usr/share/doc").glob("python3*/html/genindex-all.html"))
    if not found:
        raise EnvError(f"The package {PACKAGE} has no page genindex-all.html; see --docs.")
    return found[0].parent


def _unpack(root: Path) -> None:
    """Unpack the package and the scripts that its pages load; the system stays as it is, and no rights are needed."""
    work = root.with_name(f"{root.name}.unpacking")
    shutil.rmtree(work, ignore_errors=True)
    for folder in ("state/lists/partial", "cache/archives/partial", "root"):
        (work / folder).mkdir(parents=True)
    (work / "status").touch()  # as if nothing were installed: what the pages link to shall be here, too
    apt = ["-o", f"Dir::State={work}/state", "-o", f"Dir::State::status={work}/status"]
    apt += ["-o", f"Dir::Cache={work}/cache", "-o", "Debug::NoLocking=1", "-o", "Acquire::Languages=none"]
    _run(["apt-get", *apt, "update"])
    depends = _run(["apt-cache", *apt, "depends", PACKAGE])
    manual = re.search(r"python3\.\d+-doc", depends)
    if not manual:
        raise EnvError(f"The package {PACKAGE} does not say which documentation it stands for; see --docs.")
    _run(["apt-get", *apt, "install", "-y", "--no-install-recommends", "--download-only", manual.group()])
    for archive in sorted((work / "cache/archives").glob("*.deb")):
        _run(["dpkg-deb", "--extract", str(archive), str(work / "root")])
    shutil.rmtree(root, ignore_errors=True)
    (work / "root").rename(root)
    shutil.rmtree(work)


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise EnvError(f"The Python documentation could not be fetched: {error}") from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise EnvError(f"The Python documentation could not be fetched: {command[0]}: {said[-1]}")
    return done.stdout
