"""Choice of the next episode's seed.

Every episode has a seed, and a reset with that seed starts the same episode again, whoever chose it.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import index

import numpy as np


class Seeds:
    """The seeds of an environment's episodes, or of all environments of a vector together.

    Args:
        given: the only seeds that episodes may have, used in order, then again from the first; None for any seed.

    Raises:
        ValueError: the seeds are not whole numbers from 0 on.
    """

    def __init__(self, given: Sequence[int] | None = None) -> None:
        try:
            self._given = given if given is None or isinstance(given, range) else tuple(map(index, given))
            ends = (given[0], given[-1]) if isinstance(given, range) else self._given
            valid = ends is None or min(ends) >= 0
        except (TypeError, ValueError, IndexError):  # not numbers, or an empty sequence
            valid = False
        if not valid:
            raise ValueError(f"seeds must be a range or list of non-negative integers, not {given!r}.")
        self._place = 0

    def next(self, asked: int | None, rng: np.random.Generator) -> int:
        """Return the next episode's seed.

        Args:
            asked: the seed given to `reset`. If it is not among the given seeds, it is an index into them, modulo their
                number.
            rng: draws the seed if neither is given.
        """
        if self._given is None:
            return int(rng.integers(2**31) if asked is None else asked)
        if asked is not None:
            self._place = self._given.index(asked) if asked in self._given else asked
        seed = self._given[self._place % len(self._given)]
        self._place += 1
        return seed
