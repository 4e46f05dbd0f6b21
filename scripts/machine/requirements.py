"""Comparison of the requirements in the project's metadata with the installed packages."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


@dataclass(frozen=True)
class RequiredPackage:
    """A distribution that the project or one of its extras requires."""

    name: str
    extra: str
    """Name of the extra; empty for a requirement of the project itself."""
    wanted: str
    """Version specifier such as `>=1.4,<2`."""
    installed: str
    """Installed version; empty if the distribution is absent."""

    @property
    def fits(self) -> bool:
        """Whether the installed version satisfies the specifier."""
        return bool(self.installed) and Requirement(self.name + self.wanted).specifier.contains(
            self.installed, prereleases=True
        )


def needed() -> list[RequiredPackage]:
    """Return all distributions that `selfsurf` requires on this platform, extras included.

    Raises:
        importlib.metadata.PackageNotFoundError: `selfsurf` itself is not installed.
    """
    return [
        RequiredPackage(requirement.name, extra, str(requirement.specifier), installed(requirement.name))
        for extra, requirement in _requirements()
    ]


def extra_of(module: str) -> str:
    """Return the extra that installs a module; empty if none does."""
    wanted = canonicalize_name(module.split(".")[0])
    for extra, requirement in _requirements():
        if extra and canonicalize_name(requirement.name) == wanted:
            return extra
    return ""


def _requirements() -> Iterator[tuple[str, Requirement]]:
    distribution = importlib.metadata.distribution("selfsurf")
    extras = distribution.metadata.get_all("Provides-Extra") or []
    for line in distribution.requires or []:
        requirement = Requirement(line)
        marker = requirement.marker
        for extra in ["", *extras]:
            if marker is None or marker.evaluate({"extra": extra}):
                yield extra, requirement
                break


def installed(name: str) -> str:
    """Return the installed version of a distribution; empty if it is absent."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""
