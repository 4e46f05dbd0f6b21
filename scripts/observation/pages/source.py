"""Kinds of sources of pages: folders that are served as they are, and applications that run."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from selfsurf.scripts.machine import install

HTML = Path(__file__).parent / "html"
"""Pages of ours that show what an npm package makes of a page."""

SITE = Path(__file__).parent / "apps" / "django_site.py"


@dataclass(frozen=True)
class Static:
    """A folder of files.

    Args:
        name: where it is mounted.
        package: what it comes from, for people.
        install: brings it here and returns the folder.
        uses: what else its pages load from.
    """

    name: str
    package: str
    install: Callable[[], Path]
    uses: tuple[Static, ...] = ()


@dataclass(frozen=True)
class App:
    """An application in a process of its own.

    Args:
        name: folder and process.
        package: what it comes from, for people.
        install: brings it here and sets it up; returns the folder to run it in.
        command: makes the command line from folder and port.
        variables: gives further environment variables, once it is installed.
        probe: path that answers with success when it is up.
    """

    name: str
    package: str
    install: Callable[[], Path]
    command: Callable[[Path, int], list[str]]
    variables: Callable[[], Mapping[str, str]] = dict
    probe: str = "/"


Source = Static | App


def npm(name: str, package: str, folder: str = "") -> Static:
    """A pinned npm package: its `node_modules`, or the `folder` in there that holds its pages."""
    return Static(name, package, lambda: install.npm(name, [package]) / folder)


def apt(name: str, packages: list[str], pattern: str) -> Static:
    """Pages that a Debian package brings; `pattern` finds their folder."""

    def unpacked() -> Path:
        root = install.apt(name, packages)
        found = sorted(root.glob(pattern))
        if not found:
            raise install.Unavailable(f"{packages[0]} has no {pattern}: this distribution's differs")
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
    """An application that comes in packages. What stands in braces in commands and variables, `table.toml` says.

    Args:
        name: folder and process.
        packages: the application's, and what it wants beside it.
        setup: the commands that set it up, in its folder.
        serve: the command that starts it on a port.
        manager: what installs the packages.
        script: for the commands.
        variables: further environment variables.
        probe: path that answers with success when it is up.
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
    """Our pages, and the packages that they load."""
    return Static("html", uses[0].package, lambda: HTML, uses)


def hard() -> Static:
    """The hand-made pages, which only a checkout has."""
    folder = Path(__file__).resolve().parents[3] / "tests" / "browser_env" / "pages"

    def found() -> Path:
        if not folder.is_dir():
            raise install.Unavailable(f"{folder} is not there: run from a checkout")
        return folder

    return Static("hard", "this repository", found)
