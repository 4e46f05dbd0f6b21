"""Additional reports to an agent on its own episodes: effects, failures, and past successes on the same site.

An aid is a class in this package, listed in `AIDS`. All are off by default: none was measured to help here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from selfsurf.agents.aids.base import Aid
from selfsurf.agents.aids.effect import Effect
from selfsurf.agents.aids.failures import Failures
from selfsurf.agents.aids.site import SiteMemory

__all__ = ["AIDS", "Aid", "Effect", "Failures", "SiteMemory", "aid_names", "make_aids"]

AIDS: tuple[type[Aid], ...] = (Effect, Failures)
"""Aids that need no options, in the order of their reports."""


def aid_names(aids: bool | Sequence[str] = False) -> tuple[str, ...]:
    """Return the names of the selected aids: all (True), none (False), or the given names.

    Raises:
        ValueError: a name is unknown.
    """
    names = tuple(kind.name for kind in AIDS)
    chosen = names if aids is True else tuple(aids or ())
    if unknown := [name for name in chosen if name not in names]:
        raise ValueError(f"Unknown aids {unknown}: choose from {', '.join(names)}.")
    return tuple(name for name in names if name in chosen)


def make_aids(names: Sequence[str], site_memory: str | Path | None = None) -> list[Aid]:
    """Return the aids of one episode.

    Args:
        names: return value of `aid_names`.
        site_memory: folder of `SiteMemory`; None for no site memory.
    """
    made: list[Aid] = [kind() for kind in AIDS if kind.name in names]
    return [*made, SiteMemory(Path(site_memory).expanduser())] if site_memory else made
