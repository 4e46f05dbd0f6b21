"""A suite of deceptive pages that shows what misleads an agent."""

from __future__ import annotations

from selfsurf.tasks.misled.pages import KINDS
from selfsurf.tasks.misled.task import Misled


def names() -> tuple[str, ...]:
    """Return the names of all kinds of deceptive pages."""
    return tuple(KINDS)


__all__ = ["KINDS", "Misled", "names"]
