"""What the project's own metadata says it needs, compared with what is installed."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


@dataclass(frozen=True)
class Needed:
    """One distribution that the project or an extra of it asks for."""

    name: str
    extra: str
    """Empty for what is always needed."""
    wanted: str
    """A version specifier such as `>=1.4,<2`."""
    installed: str
    """Empty if it is not there."""

    @property
    def fits(self) -> bool:
        """Whether the installed version is one that is wanted."""
        return bool(self.installed) and Requirement(self.name + self.wanted).specifier.contains(
            self.installed, prereleases=True
        )


def needed() -> list[Needed]:
    """Everything that `selfsurf` asks for on this platform, extras included.

    Raises:
        importlib.metadata.PackageNotFoundError: `selfsurf` itself is not installed.
    """
    return [
        Needed(requirement.name, extra, str(requirement.specifier), installed(requirement.name))
        for extra, requirement in _requirements()
    ]


def extra_of(module: str) -> str:
    """The extra that brings a module, empty if none does."""
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
    """The version of a distribution that is there; empty if it is not."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""
