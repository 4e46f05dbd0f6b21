"""Kinds of sources of pages: folders that are served as they are, and applications that run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from selfsurf.scripts.observation.pages import install

HTML = Path(__file__).parent / "html"
"""Pages of ours that show what an npm package makes of a page."""


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


def npm(name: str, *packages: str) -> Static:
    """The `node_modules` of pinned npm packages."""
    return Static(name, packages[0], lambda: install.npm(name, packages))


def npm_pages(name: str, package: str, folder: str) -> Static:
    """Pages that an npm package brings; `folder` is theirs below `node_modules`."""
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
