"""The `--cache` option of commands: opening the cache of flows, and summarizing its use."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from selfsurf.agents.cached import Cache


def open_cache(folder: Path) -> Cache:
    """Open a folder of flows.

    Raises:
        typer.BadParameter: The cache is damaged.
    """
    from selfsurf.agents.cached import Cache, CacheError

    try:
        return Cache(folder)
    except CacheError as error:
        raise typer.BadParameter(f"--cache: {error}") from None


def cached_line(cached: dict[str, Any]) -> str:
    """Return a line on the actions replayed from the cache, and those added to it."""
    healed = f", {cached['healed']} of them on changed elements" if cached["healed"] else ""
    left = f"; then {cached['left']}" if cached["left"] else ""
    kept = f"kept {cached['kept']['actions']}" if cached["kept"] else "kept none"
    why = f": {cached['why']}" if cached["why"] else ""
    return f"\nCache: {cached['actions']} actions{healed}{left}; {kept}{why}"
