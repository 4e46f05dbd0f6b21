"""A baseline verifier without a model, which shows what merely asking again achieves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from selfsurf.agents.roles import Accept, Proposal, Reject, RoleTask, Verifier


class Doubting(Verifier):
    """A verifier that rejects the first claim of each episode, and accepts the next one.

    Use it with `run --agent roles --set verifier=selfsurf.scripts.agents.doubting:Doubting`.
    """

    missing: ClassVar[str] = "something may still be missing: look again"

    def propose(self, tasks: Sequence[RoleTask], *, seeds: Sequence[int] | None = None) -> list[Proposal]:
        """Decide by the number of earlier rejections, without querying a model."""
        verdicts = (
            Accept(reason="it was claimed again") if one.rejections else Reject(missing=self.missing) for one in tasks
        )
        return [Proposal(self.name, (verdict,)) for verdict in verdicts]
