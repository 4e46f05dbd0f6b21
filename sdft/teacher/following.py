"""Whether a teacher follows its demonstration, which decides how a row is learned.

If a run learns recorded actions, a row is learned from the teacher's distribution if that gives the action at least
half of the probability, and by cross-entropy otherwise.

In a run that starts from an adapter, the average of the student's weights starts at the student's, so nothing learned
is lost on the way. But a model trained to do one thing may do it regardless of the demonstration. Such rows are learned
from the untrained model; if that doesn't follow either, the row is left out, because the student would unlearn its own
action.

The probability of the demonstrated action is computed only up to the first token at which the student's reply differs
from it; after that the reply takes another course.
"""

from __future__ import annotations

from collections.abc import Sequence

FOLLOWS = 0.5
"""Minimum probability of the demonstrated action under a teacher that follows."""

Places = tuple[list[int], list[int]]
"""Positions in a reply, and the demonstrated action's tokens there."""


def places(reply: Sequence[int], told: Sequence[int] | None) -> Places:
    """Return the positions in a reply that give the action's probability; empty without a demonstrated action.

    Args:
        reply: tokens of the reply.
        told: tokens of the demonstrated action.
    """
    found: Places = ([], [])
    for place, (token, written) in enumerate(zip(told or (), reply, strict=False)):
        found[0].append(place)
        found[1].append(token)
        if token != written:
            break
    return found


def throughout(action: Sequence[int]) -> Places:
    """Return all positions and tokens of an action, for a reply that equals the action."""
    return [*range(len(action))], [*action]


def heeded(teacher: float, student: float) -> bool:
    """Whether a row teaches: the teacher follows, or is at least as close to the action as the student.

    Args:
        teacher: probability of the demonstrated action under the teacher.
        student: probability of the demonstrated action under the student.
    """
    return teacher >= FOLLOWS or teacher >= student
