"""Brings packages into the cache: one folder a package and version, filled on first use, never changed afterwards.

A folder is filled under another name and renamed when it is complete, so that an interrupted download is repeated.
The package managers' output goes to a log beside the folder, which error messages name.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from selfsurf.browser_env.session.browsers import cache_home

INSTALL_SECONDS = 900
"""How long one package manager may take for one source."""


class Unavailable(Exception):
    """A page is not available on this machine; the message says why in one line."""


def home() -> Path:
    """The folder of all sources."""
    return cache_home() / "pages"


def npm(name: str, packages: Sequence[str]) -> Path:
    """Install pinned npm packages (`name@version`) without running their scripts; return their `node_modules`."""
    _need("npm")

    def fill(folder: Path, log: Path) -> None:
        command = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--omit=optional"]
        _run([*command, "--legacy-peer-deps", "--prefix", str(folder), *packages], log)

    return _once("npm", name, packages, fill) / "node_modules"


def pip(name: str, requirements: Sequence[str]) -> Path:
    """Install pinned Python packages into a virtual environment of their own; return its folder."""

    def fill(folder: Path, log: Path) -> None:
        _run([sys.executable, "-m", "venv", str(folder)], log)
        _run([str(folder / "bin/python"), "-m", "pip", "install", "--quiet", *requirements], log)

    return _once("pip", name, requirements, fill, moved=False)


def apt(name: str, packages: Sequence[str]) -> Path:
    """Unpack Debian packages, and nothing that they depend on; return the root they were unpacked under.

    Works without root and leaves the system alone. The version is the one that the system's package lists offer,
    since an archive keeps only that.
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
        versions = [archive.name.split("_")[1].replace("%3a", ":") for archive in sorted(archives.glob("*.deb"))]
        (folder / "version").write_text(versions[0] if len(versions) == 1 else _version(archives, packages[0]))
        shutil.rmtree(archives)
        _relative_links(folder / "root")

    return _once("apt", name, packages, fill) / "root"


def prepare(name: str, key: str, commands: Sequence[Sequence[str]], variables: Mapping[str, str] | None = None) -> Path:
    """Set an application up by running commands in a new folder; return the folder.

    Args:
        name: folder's name.
        key: what the result depends on; when it changes, the folder is recreated.
        commands: run one after the other, in the folder.
        variables: further environment variables of theirs.
    """

    def fill(folder: Path, log: Path) -> None:
        for command in commands:
            _run(list(command), log, cwd=folder, variables=variables)

    return _once("apps", name, [key], fill)


def _version(archives: Path, package: str) -> str:
    return next(archives.glob(f"{package}_*.deb")).name.split("_")[1].replace("%3a", ":")


def _relative_links(root: Path) -> None:
    """Make links to absolute paths point to where those were unpacked, where they were."""
    for link in root.rglob("*"):
        if link.is_symlink() and os.readlink(link).startswith("/"):
            inside = root / os.readlink(link)[1:]
            if os.path.lexists(inside):
                link.unlink()
                link.symlink_to(os.path.relpath(inside, link.parent))


def _need(program: str) -> None:
    if shutil.which(program) is None:
        raise Unavailable(f"{program} is not installed")


def _once(
    manager: str, name: str, packages: Sequence[str], fill: Callable[[Path, Path], None], *, moved: bool = True
) -> Path:
    """Fill a folder unless that was done before with the same packages.

    Args:
        manager: package manager, which is the folder above.
        name: folder's name.
        packages: what was asked for; when it changes, the folder is refilled.
        fill: fills a folder, and writes its log.
        moved: fill it under another name first. Virtual environments can't be moved; they get their mark last.
    """
    folder = home() / manager / name
    mark = folder / "packages.txt"
    wanted = "\n".join(packages)
    if mark.is_file() and mark.read_text(encoding="utf-8") == wanted:
        return folder
    log = home() / manager / f"{name}.log"
    shutil.rmtree(folder, ignore_errors=True)
    working = folder.with_name(f"{name}.new") if moved else folder
    shutil.rmtree(working, ignore_errors=True)
    working.mkdir(parents=True)
    what = "setting up" if manager == "apps" else "installing"
    print(
        f"pages: {what} {name if manager == 'apps' else ', '.join(packages)} ({manager}) ...",
        file=sys.stderr,
        flush=True,
    )
    fill(working, log)
    (working / "packages.txt").write_text(wanted, encoding="utf-8")
    if moved:
        working.rename(folder)
    return folder


def _run(command: list[str], log: Path, cwd: Path | None = None, variables: Mapping[str, str] | None = None) -> None:
    with open(log, "ab") as sink:
        try:
            code = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                cwd=cwd,
                env={**os.environ, **(variables or {})},
                timeout=INSTALL_SECONDS,
                check=False,
            ).returncode
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Unavailable(f"{command[0]}: {error}") from None
    if code:
        raise Unavailable(f"`{' '.join(command[:3])} ...` ended with {code}; see {log}")
