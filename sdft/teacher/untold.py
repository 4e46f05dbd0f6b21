"""The context of those who learn without being told anything: every step is one to learn from."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from selfsurf.sdft.teacher.context import Context, Told

if TYPE_CHECKING:
    from selfsurf.sdft.rollouts import Result


class Untold(Context):
    """Nothing is told, and every step is learned from."""

    name: ClassVar[str] = "untold"

    def tell(self, result: Result, index: int) -> Told:
        """Tell nothing."""
        return Told("")
