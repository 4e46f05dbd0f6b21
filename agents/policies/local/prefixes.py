"""Key-value caches of earlier prompts, so that a new prompt's shared prefix is not computed again."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

Layers: TypeAlias = "list[tuple[torch.Tensor, torch.Tensor]]"
"""Keys and values of all layers, each of shape (1, heads, tokens, width)."""


@dataclass(frozen=True)
class CachedPrompt:
    """An earlier prompt with its keys and values."""

    ids: NDArray[np.int64]
    layers: Layers
    size: int
    """Size of the keys and values in bytes."""


class PrefixCache:
    """A cache of the most recently used prompts, with a memory limit.

    Args:
        max_bytes: limit for keys and values; the least recently used prompts are dropped first.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.size = 0
        """Number of bytes in use."""
        self._known: list[CachedPrompt] = []  # the most recently used last
        self._weights: Hashable = None

    def __len__(self) -> int:
        return len(self._known)

    def clear(self) -> None:
        """Drop all prompts."""
        self._known.clear()
        self.size = 0

    def for_weights(self, weights: Hashable) -> None:
        """Drop prompts computed with other weights. `weights` identifies the current weights."""
        if weights != self._weights:
            self.clear()
            self._weights = weights

    def longest(self, ids: Sequence[int]) -> tuple[CachedPrompt | None, int]:
        """Return the prompt with the longest common prefix with `ids`, and the prefix's length in tokens.

        At least one token of `ids` remains, since a model needs a token to predict the next.
        """
        wanted = np.asarray(ids[:-1], dtype=np.int64)
        best, most = None, 0
        for index, known in enumerate(self._known):
            shared = _shared(known.ids, wanted)
            if shared >= most and shared > 0:  # ties go to the most recently used prompt
                best, most = index, shared
        if best is None:
            return None, 0
        known = self._known.pop(best)
        self._known.append(known)
        return known, most

    def add(self, ids: Sequence[int], layers: Layers) -> None:
        """Add a prompt's keys and values to the cache; the tensors must not change afterwards."""
        known = CachedPrompt(
            np.asarray(ids, dtype=np.int64), layers, sum(part.nbytes for layer in layers for part in layer)
        )
        self._known = [one for one in self._known if not np.array_equal(one.ids, known.ids)]
        self._known.append(known)
        self.size = sum(one.size for one in self._known)
        while self.size > self.max_bytes:
            self.size -= self._known.pop(0).size


def _shared(first: NDArray[np.int64], second: NDArray[np.int64]) -> int:
    """Return the number of leading tokens that two prompts have in common."""
    length = min(len(first), len(second))
    differ = np.flatnonzero(first[:length] != second[:length])
    return int(differ[0]) if differ.size else length
