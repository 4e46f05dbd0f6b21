"""Gates: where there is something to be learned from the teacher. What they leave out is counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Gates:
    """Which rows (steps of episodes) and tokens are learned from. The defaults leave nothing out."""

    skip_right: bool = False
    """Leave out the steps in which the student did what the demonstration says: the teacher is no better there."""
    skip_solved: bool = False
    """Leave out the episodes that the student solved: the teacher can do no better."""
    min_divergence: float = 0.0
    """Leave out rows whose mean KL(teacher || student) in nats a token is below this: there is nothing to learn."""
    min_confidence: float = 0.0
    """Leave out tokens for which the teacher's likeliest choice has less probability than this: it does not know."""


def passed(
    gates: Gates,
    teacher: torch.Tensor,
    student: torch.Tensor,
    mask: torch.Tensor,
    right: torch.Tensor,
    solved: torch.Tensor,
    free: torch.Tensor,
) -> tuple[torch.Tensor, dict[str, int]]:
    """Return what of the loss mask the gates let through, and what each of them left out.

    Args:
        gates: which there are. Each judges by itself, so a row can be counted by several.
        teacher: logits (B, C, V), as the loss sees them.
        student: the same.
        mask: (B, C), 1 for tokens with a loss.
        right: (B,), whether the student did what the demonstration says.
        solved: (B,), whether it solved the row's episode.
        free: (B, C), whether there was a choice. A row that is left with forced tokens alone is left out.

    Returns:
        The new mask (B, C), and `right`, `solved`, `divergence` (rows) and `confidence` (tokens).
    """
    import torch

    if gates == Gates():
        return mask, dict.fromkeys(("right", "solved", "divergence", "confidence"), 0)
    with torch.no_grad():
        teacher, student = torch.log_softmax(teacher, -1), torch.log_softmax(student, -1)
        divergence = ((teacher.exp() * (teacher - student)).sum(-1) * mask).sum(-1) / mask.sum(-1).clamp(min=1)
        alike = (divergence < gates.min_divergence) & mask.any(-1) & (gates.min_divergence > 0)  # rounding: below 0
        done = right & mask.any(-1) if gates.skip_right else torch.zeros_like(right)
        over = solved & mask.any(-1) if gates.skip_solved else torch.zeros_like(solved)
        unsure = (teacher.amax(-1).exp() < gates.min_confidence) & mask.bool()
        sure = mask * ~unsure
        emptied = unsure.any(-1) & ~(sure.bool() & free).any(-1)
        kept = sure * ~(alike | done | over | emptied)[:, None]
    left_out = {"right": done, "solved": over, "divergence": alike, "confidence": unsure}
    return kept, {name: int(what.sum()) for name, what in left_out.items()}
