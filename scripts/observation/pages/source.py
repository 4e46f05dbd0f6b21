"""Sources of pages: static folders, and applications."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from selfsurf.scripts.machine import install

HTML = Path(__file__).parent / "html"
"""Folder of this project's pages that demonstrate npm packages."""

SITE = Path(__file__).parent / "apps" / "django_site.py"


@dataclass(frozen=True)
class Static:
    """A static folder of pages.

    Args:
        name: Path under which it is mounted.
        package: Package of origin, for display.
        install: Installs the package and returns the folder.
        uses: Further sources that its pages load from.
    """

    name: str
    package: str
    install: Callable[[], Path]
    uses: tuple[Static, ...] = ()


@dataclass(frozen=True)
class App:
    """An application that serves pages in a process of its own.

    Args:
        name: Name of its folder and process.
        package: Package of origin, for display.
        install: Installs the application and sets it up; returns the working directory.
        command: Returns the command line for a folder and a port.
        variables: Returns further environment variables, after the installation.
        probe: Path that responds with success when the application is up.
    """

    name: str
    package: str
    install: Callable[[], Path]
    command: Callable[[Path, int], list[str]]
    variables: Callable[[], Mapping[str, str]] = dict
    probe: str = "/"


Source = Static | App


def npm(name: str, package: str, folder: str = "") -> Static:
    """Return a source for a pinned npm package: its `node_modules`, or the `folder` with its pages."""
    return Static(name, package, lambda: install.npm(name, [package]) / folder)


def apt(name: str, packages: list[str], pattern: str) -> Static:
    """Return a source for the pages of a Debian package; `pattern` matches their folder."""

    def unpacked() -> Path:
        root = install.apt(name, packages)
        found = sorted(root.glob(pattern))
        if not found:
            raise install.Unavailable(f"{packages[0]} has no {pattern}: this distribution packages it differently")
        return found[0]

    return Static(name, f"{packages[0]} (apt)", unpacked)


def app(
    name: str,
    packages: Sequence[str],
    setup: Sequence[str],
    serve: str,
    manager: Literal["pip", "apt"] = "pip",
    script: str = "",
    variables: Mapping[str, str] | None = None,
    probe: str = "/",
) -> App:
    """Return a source for an application from packages. `table.toml` explains the placeholders in braces.

    Args:
        name: Name of its folder and process.
        packages: The application's package, followed by further requirements.
        setup: Commands that set it up, in its folder.
        serve: Command that starts it on a port.
        manager: Package manager.
        script: Text for the placeholder `{script}` in commands.
        variables: Further environment variables.
        probe: Path that responds with success when the application is up.
    """
    key = hashlib.sha256("\n".join([*setup, script, SITE.read_text(encoding="utf8")]).encode()).hexdigest()

    def words(command: str, port: int = 0) -> list[str]:
        folder = install.home() / manager / name / ("bin" if manager == "pip" else "root/usr/bin")
        return [word.format(bin=folder, site=SITE, script=script, port=port) for word in shlex.split(command)]

    def environment() -> dict[str, str]:
        found = {key: text.format(apps=install.home() / "apps") for key, text in (variables or {}).items()}
        if manager == "apt":
            found["LD_LIBRARY_PATH"] = install.libraries(install.home() / "apt" / name)
        return found

    def ready() -> Path:
        (install.pip if manager == "pip" else install.apt)(name, packages)
        return install.prepare(name, key, [words(command) for command in setup], environment())

    package = packages[0] if manager == "pip" else f"{packages[0]} (apt)"
    return App(name, package, ready, lambda _, port: words(serve, port), environment, probe)


def own(*uses: Static) -> Static:
    """Return a source for this project's own pages and the packages that they load."""
    return Static("html", uses[0].package, lambda: HTML, uses)


def hard() -> Static:
    """Return a source for the hand-made test pages, which only a checkout contains."""
    folder = Path(__file__).resolve().parents[3] / "tests" / "browser_env" / "pages"

    def found() -> Path:
        if not folder.is_dir():
            raise install.Unavailable(f"{folder} is missing: run this in a checkout")
        return folder

    return Static("hard", "this repository", found)
