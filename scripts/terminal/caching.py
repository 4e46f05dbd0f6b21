"""A command's cache of flows: opened, and what it did told."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from selfsurf.agents.cached import Cache


def open_cache(folder: Path) -> Cache:
    """Read a folder of flows; a damaged one is refused."""
    from selfsurf.agents.cached import Cache, CacheError

    try:
        return Cache(folder)
    except CacheError as error:
        raise typer.BadParameter(f"--cache: {error}") from None


def cached_line(cached: dict[str, Any]) -> str:
    """Say what came from the cache, and what went into it."""
    healed = f", {cached['healed']} of them on elements that had changed" if cached["healed"] else ""
    left = f"; then {cached['left']}" if cached["left"] else ""
    kept = f"kept {cached['kept']['actions']}" if cached["kept"] else "kept none"
    why = f": {cached['why']}" if cached["why"] else ""
    return f"\nCache: {cached['actions']} actions{healed}{left}; {kept}{why}"
