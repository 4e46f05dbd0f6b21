"""Does a teacher do what it is told? If not, it must not be heeded.

Where a run learns recorded actions, a row is learned from the teacher's distribution if that gives the action at least
half of the probability, and by cross-entropy otherwise.

In a run that goes on from an adapter, an average of the student's weights begins where the student is, so nothing that
it can do is lost on the way. But what has learned to do one thing may do that whatever it is told. There the untrained
model is asked, and where that does not follow either, a row of the student's own reply is left out: the student would
unlearn what it does.

How likely the action that was told is, is read as far as the student's reply agrees with it: behind the first token
that differs the reply goes elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence

FOLLOWS = 0.5
"""Probability of the action that it is told from which a teacher is said to follow."""

Places = tuple[list[int], list[int]]
"""Places in a reply, and the tokens of the action there."""


def places(reply: Sequence[int], told: Sequence[int] | None) -> Places:
    """Return where a reply tells how likely the action is; empty where no action was told.

    Args:
        reply: its tokens.
        told: the action's.
    """
    found: Places = ([], [])
    for place, (token, written) in enumerate(zip(told or (), reply, strict=False)):
        found[0].append(place)
        found[1].append(token)
        if token != written:
            break
    return found


def throughout(action: Sequence[int]) -> Places:
    """Return the places in a reply that is the action itself."""
    return [*range(len(action))], [*action]


def heeded(teacher: float, student: float) -> bool:
    """Does a row teach: does the teacher follow, or is it at least nearer to it than the student?

    Args:
        teacher: probability that it gives to the action that it is told.
        student: that of the student.
    """
    return teacher >= FOLLOWS or teacher >= student
