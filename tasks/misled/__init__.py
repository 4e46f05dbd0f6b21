"""Pages that lie: a suite that shows by what an agent is misled."""

from __future__ import annotations

from selfsurf.tasks.misled.pages import KINDS
from selfsurf.tasks.misled.task import Misled


def names() -> tuple[str, ...]:
    """Return the names of all kinds of pages."""
    return tuple(KINDS)


__all__ = ["KINDS", "Misled", "names"]
