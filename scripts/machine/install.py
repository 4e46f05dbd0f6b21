"""Installation of packages into the cache: one folder per package and version, filled on first use.

A folder is filled under a temporary name and renamed when complete, so that an interrupted download is repeated. The
package managers' output is written to a log beside the folder, which error messages name. Several processes may request
the same folder at once.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from selfsurf.browser_env.browser.browsers import cache_home

INSTALL_SECONDS = 1800
"""Seconds until a command of a package manager is given up."""

MARK = "packages.txt"
"""Name of the file in each folder that lists the installed packages."""


class Unavailable(Exception):
    """A package that can't be installed on this machine; the message is a one-line reason."""


def home() -> Path:
    """Return the cache folder for the packages of measured pages."""
    return cache_home() / "pages"


def npm(name: str, packages: Sequence[str]) -> Path:
    """Install pinned npm packages (`name@version`) without running their scripts; return their `node_modules`."""
    _need("npm")

    def fill(folder: Path, log: Path) -> None:
        command = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--omit=optional"]
        _run([*command, "--legacy-peer-deps", "--prefix", str(folder), *packages], log)

    return _once(home() / "npm" / name, packages, fill) / "node_modules"


def pip(name: str, requirements: Sequence[str]) -> Path:
    """Install pinned Python packages into a new virtual environment; return its folder."""
    return venv(home() / "pip" / name, requirements)


def venv(folder: Path, requirements: Sequence[str], python: str = sys.executable, options: Sequence[str] = ()) -> Path:
    """Create a virtual environment and install packages with the given pip options; return its folder."""

    def fill(folder: Path, log: Path) -> None:
        _run([python, "-m", "venv", str(folder)], log)
        _run([str(folder / "bin/python"), "-m", "pip", "install", "--quiet", *options, *requirements], log)

    return _once(folder, [python, *requirements], fill, moved=False)


def apt(name: str, packages: Sequence[str]) -> Path:
    """Unpack Debian packages, without their dependencies; return the root they were unpacked into.

    Works without root and doesn't change the system. The version is that of the system's package lists, because a
    Debian archive keeps only that one.
    """
    _need("apt-get")
    _need("dpkg-deb")

    def fill(folder: Path, log: Path) -> None:
        archives = folder / "archives"
        archives.mkdir(parents=True)
        if os.geteuid() == 0:
            _run(["apt-get", "update"], log)
            os.chmod(folder, 0o755)
        _run(["apt-get", "-o", "APT::Sandbox::User=root", "download", *packages], log, cwd=archives)
        for archive in sorted(archives.glob("*.deb")):
            _run(["dpkg-deb", "--extract", str(archive), str(folder / "root")], log)
        shutil.rmtree(archives)
        _relative_links(folder / "root")

    return _once(home() / "apt" / name, packages, fill) / "root"


def prepare(name: str, key: str, commands: Sequence[Sequence[str]], variables: Mapping[str, str] | None = None) -> Path:
    """Set up an application by running commands in a new folder; return the folder.

    Args:
        name: Name of the folder.
        key: Value that the result depends on; when it changes, the folder is recreated.
        commands: Commands to run one after the other in the folder.
        variables: Further environment variables for the commands.
    """

    def fill(folder: Path, log: Path) -> None:
        for command in commands:
            _run(list(command), log, cwd=folder, variables=variables)

    return _once(home() / "apps" / name, [key], fill)


def _relative_links(root: Path) -> None:
    """Make absolute links relative if their target was unpacked below `root`."""
    for link in root.rglob("*"):
        if link.is_symlink() and os.readlink(link).startswith("/"):
            inside = root / os.readlink(link)[1:]
            if os.path.lexists(inside):
                link.unlink()
                link.symlink_to(os.path.relpath(inside, link.parent))


def _need(program: str) -> None:
    if shutil.which(program) is None:
        raise Unavailable(f"{program} is not installed")


def _once(folder: Path, packages: Sequence[str], fill: Callable[[Path, Path], None], *, moved: bool = True) -> Path:
    """Fill a folder, unless it was already filled with the same packages.

    Args:
        folder: The folder, which is returned.
        packages: Requested packages; when they change, the folder is refilled.
        fill: Fills a folder and writes its log.
        moved: Whether to fill it under a temporary name first. Virtual environments can't be moved: they are marked as
            complete last, and recreated when the Python that they link to is gone.
    """
    log, wanted = folder.with_name(f"{folder.name}.log"), "\n".join(packages)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Unavailable(str(error)) from None
    with open(folder.with_name(f"{folder.name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        filled = (folder / MARK).is_file() and (folder / MARK).read_text(encoding="utf-8") == wanted
        if filled and (moved or (folder / "bin/python").exists()):
            return folder
        working = folder.with_name(f"{folder.name}.new") if moved else folder
        for old in (folder, working):
            shutil.rmtree(old, ignore_errors=True)
        log.unlink(missing_ok=True)
        working.mkdir()
        print(f"Installing into {folder} ...", file=sys.stderr, flush=True)
        fill(working, log)
        (working / MARK).write_text(wanted, encoding="utf-8")
        working.rename(folder)
    return folder


def _run(command: list[str], log: Path, cwd: Path | None = None, variables: Mapping[str, str] | None = None) -> None:
    environment = {**os.environ, **(variables or {})}
    with open(log, "ab") as sink:
        try:
            code = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, cwd=cwd, env=environment,
                timeout=INSTALL_SECONDS, check=False,
            ).returncode  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Unavailable(f"{command[0]}: {error}") from None
    if code:
        lines = ["", *filter(str.strip, log.read_text(encoding="utf-8", errors="replace").splitlines())]
        said = [line for line in lines if line.startswith("ERROR")] or lines
        raise Unavailable(f"{said[-1]} (`{' '.join(command[:3])} ...` ended with exit code {code}; see {log})".strip())


def libraries(root: Path) -> str:
    """Return the folders below a root that hold shared libraries, in the form of `LD_LIBRARY_PATH`."""
    return ":".join(sorted({str(library.parent) for library in root.rglob("*.so*")}))


def write_program(path: Path, *lines: str) -> Path:
    """Write a shell script atomically, because it may be running; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.{os.getpid()}")
    new.write_text("\n".join(["#!/bin/sh", *lines, ""]), encoding="utf-8")
    new.chmod(0o755)
    return new.replace(path)
